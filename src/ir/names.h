// SPDX-License-Identifier: Apache-2.0
// Names of instructions and computations: what HLO's lexer can read back as one name.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera::ir {

inline bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.' || c == '-'; }

/// True for words that HLO's lexer never reads as a name (`ROOT`, `nan`, `f32`, ...).
bool is_reserved_name(std::string_view);
/// The text with every character that a name can't have replaced by '_'.
std::string sanitize_name(std::string);
/// "add.12" → "add".
std::string_view name_stem(std::string_view);

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
/// Found by parts of names, too, with no copy made.
using NameCounts = std::unordered_map<std::string, int, NameHash, std::equal_to<>>;

}  // namespace tessera::ir
