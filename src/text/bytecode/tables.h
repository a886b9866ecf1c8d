// SPDX-License-Identifier: Apache-2.0
// The tables of a bytecode file that is written; file.h reads them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/text/bytecode/byte_writer.h"

namespace tessera::text {

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
/// By texts, looked up without copies of them.
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

/// Things that are numbered in the order in which they first come.
class NumberedBytes {
 public:
  std::uint32_t add(std::string key);
  std::size_t size() const { return keys_.size(); }
  const std::deque<std::string>& all() const { return keys_; }

 private:
  std::deque<std::string> keys_;
  std::unordered_map<std::string_view, std::uint32_t> known_;
};

/// Equal entries have one number.
class BytecodeTables {
 public:
  std::uint32_t string(std::string_view text) { return strings_.add(std::string(text)); }
  /// What the dialect encodes.
  std::uint32_t attribute(std::string_view dialect, const ByteWriter& encoded) {
    return entry(&attributes_, dialect, true, encoded.bytes());
  }
  std::uint32_t type(std::string_view dialect, const ByteWriter& encoded) {
    return entry(&types_, dialect, true, encoded.bytes());
  }
  /// As MLIR has it in text.
  std::uint32_t attribute_text(std::string_view dialect, std::string_view text) {
    return entry(&attributes_, dialect, false, text);
  }
  std::uint32_t type_text(std::string_view dialect, std::string_view text) {
    return entry(&types_, dialect, false, text);
  }
  std::uint32_t properties(const ByteWriter& encoded) { return properties_.add(encoded.bytes()); }
  /// `vhlo`, `add_v1`
  std::uint32_t operation(std::string_view dialect, std::string_view name);

  /// The whole file with these operations.
  std::string file(std::string_view producer, std::string_view operations);

 private:
  std::uint32_t dialect(std::string_view name) {
    string(name);
    return dialects_.add(std::string(name));
  }
  std::uint32_t entry(NumberedBytes* table, std::string_view of, bool custom,
                      std::string_view bytes);
  std::string dialect_section();
  std::string string_section() const;

  NumberedBytes strings_, dialects_, operations_, properties_;
  /// Each with its dialect and whether that encodes it, in front of its bytes.
  NumberedBytes attributes_, types_;
};

}  // namespace tessera::text
