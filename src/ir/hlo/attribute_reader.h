// SPDX-License-Identifier: Apache-2.0
// The attributes of one instruction (or of the module's header) as `key=value` texts that readers
// take one by one; what nobody took is unknown.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/hlo/hlo_lexer.h"

namespace tessera::ir {

class AttributeReader {
 public:
  struct Item {
    std::string_view key, value;
    bool used = false;
  };

  /// Reads `, key=value` as long as it goes on; nothing if `none`.
  AttributeReader(HloLexer& in, std::string_view owner, bool none = false);

  std::string_view owner() const { return owner_; }
  HloLexer& lexer() { return in_; }
  /// The value's text; marks it as used.
  std::optional<std::string_view> take(std::string_view key);
  /// As take, ParseError if it is missing.
  std::string_view need(std::string_view key);
  bool has(std::string_view key) const;
  /// Whether all keys that stand here are among these.
  bool all_in(std::span<const std::string_view> keys) const;

  Dims dims(std::string_view key);
  Dims dims_or_empty(std::string_view key);
  std::int64_t integer(std::string_view key);
  std::int64_t integer_or(std::string_view key, std::int64_t fallback);
  float real(std::string_view key);
  bool flag(std::string_view key, bool fallback = false);
  std::string text(std::string_view key);
  /// The index of the value in a list of words.
  std::size_t choice(std::string_view key, const std::string_view* words, std::size_t count);
  /// Runs `read` at the value, which it must read to the end.
  template <class F>
  void at(std::string_view value, F&& read) {
    const char* back = in_.position();
    in_.seek(value.data());
    read();
    in_.skip();
    if (in_.position() < value.data() + value.size()) in_.fail("expected the end of the value");
    in_.seek(back);
  }
  [[noreturn]] void fail(std::string_view value, const std::string& message) const {
    in_.fail_at(value.data(), message);
  }
  /// ParseError for what was not taken, with the keys that would be valid.
  void finish(const std::vector<std::string_view>& also_valid);

 private:
  HloLexer& in_;
  std::string_view owner_;
  const char* start_;
  std::vector<Item> items_;
  std::vector<std::string_view> asked_;
};

}  // namespace tessera::ir
