// SPDX-License-Identifier: Apache-2.0
// The wire form of protocol buffers: fields in order, each a number and a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/pjrt/abi/messages.h"

namespace tessera::pjrt {

/// Reads the fields of a message. What the caller doesn't ask for is skipped. A Failure
/// (INVALID_ARGUMENT) that names the message and the byte if it isn't one.
class ProtoReader {
 public:
  /// `name`: of the message, for errors.
  ProtoReader(std::string_view bytes, const char* name) : bytes_(bytes), name_(name) {}

  /// The number of the next field; 0 at the end.
  std::uint32_t next();
  /// The field's value. A Failure if it is of another kind.
  std::int64_t number();
  std::string_view text();
  /// Adds the numbers of a repeated field, packed or not.
  void numbers(std::vector<std::int64_t>* to);

 private:
  std::uint64_t varint();
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view bytes_;
  const char* name_;
  std::size_t at_ = 0;
  std::uint32_t field_ = 0, wire_ = 0;
  std::uint64_t value_ = 0;
  std::string_view text_;
};

}  // namespace tessera::pjrt
