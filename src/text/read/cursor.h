// SPDX-License-Identifier: Apache-2.0
// A position in MLIR text, and the small things that are read at it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/arrays/shape.h"

namespace tessera::text {

inline bool is_id_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_decimal(char c) { return c >= '0' && c <= '9'; }
inline bool is_id_char(char c) {
  return is_id_start(c) || is_decimal(c) || c == '.' || c == '$' || c == '-';
}

/// Says where what is read comes from, if that isn't the text itself.
class Places {
 public:
  virtual ~Places() = default;
  /// The message with the place at fault.
  virtual std::string placed(const char* where, const std::string& message) const = 0;
  virtual Location location_at(const char* where) const = 0;
};

/// Reads straight from the text: no tokens are stored and nothing is copied.
class Cursor {
 public:
  Cursor(std::string_view text, const std::string& file, const Places* places = nullptr);

  const char* position() const { return p_; }
  void seek(const char* p) { p_ = p; }
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }
  const std::string& file() const { return file_; }
  /// Null if places are those of the text.
  const Places* places() const { return places_; }

  // Forced inline: in units of many sources the compiler would call them, millions of times.
  /// Passes over blanks and comments.
  [[gnu::always_inline]] void skip() {
    while (p_ < end_) {
      char c = *p_;
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++p_;
      } else if (c == '/' && p_ + 1 < end_ && p_[1] == '/') {
        skip_line();
      } else {
        return;
      }
    }
  }
  bool at_end() {
    skip();
    return p_ == end_;
  }
  /// The next character that is no blank; '\0' at the end.
  [[gnu::always_inline]] char peek() {
    skip();
    return p_ < end_ ? *p_ : '\0';
  }
  [[gnu::always_inline]] bool accept(char c) {
    if (peek() != c) return false;
    ++p_;
    return true;
  }
  bool accept_text(std::string_view text) {
    skip();
    if (rest().substr(0, text.size()) != text) return false;
    p_ += text.size();
    return true;
  }
  /// Takes exactly this word.
  bool accept_word(std::string_view word);
  void expect(char c, const char* where) {
    if (!accept(c)) fail_expected(c, where);
  }
  /// Runs `item` for each item of a list, with commas between them, whose opening bracket was read.
  template <class F>
  void items(char close, const char* behind, F&& item) {
    if (accept(close)) return;
    do {
      item();
    } while (accept(','));
    expect(close, behind);
  }
  void expect_text(std::string_view text, const char* where);
  void expect_word(std::string_view word, const char* where);

  /// Letters, digits, '_', '.', '$'; not starting with a digit. Empty if none stands here.
  std::string_view word_or_empty();
  std::string_view word(const char* what);
  /// What follows '%', '@', '#', '^', '!': also digits and '-', or a quoted text (quotes left out).
  std::string_view suffix(const char* what);
  std::int64_t integer(const char* what);
  /// A quoted text as it stands, quotes left out.
  std::string_view raw_string(const char* what);
  /// A quoted text, escapes resolved.
  std::string string(const char* what);
  /// `[1, 2]`
  Dims bracketed_integers(const char* what);

  /// From an opening bracket to the matching one, quotes respected; all kinds nest.
  std::string_view balanced();
  /// An attribute's value as it stands: up to the ',' or closing bracket behind it.
  std::string_view value();

  /// ParseError: what was expected and what stands there.
  [[noreturn]] void fail(const std::string& message);
  [[noreturn]] void fail_at(const char* where, const std::string& message) const;
  /// As fail_at, for text that is valid and not supported.
  [[noreturn]] void not_supported_at(const char* where, const std::string& message) const;
  Location location_at(const char* where) const;
  /// Cheap when the places go forward from call to call.
  std::int64_t line_at(const char* where) const;

 private:
  /// "column 5: message", the line and a mark below.
  std::string placed(const char* where, const std::string& message) const;
  std::string_view rest() const { return {p_, std::size_t(end_ - p_)}; }
  void skip_line();
  /// Meets the bracket that closes the last of those that are open, or fails.
  void close(std::string* open);
  [[noreturn]] void fail_expected(char c, const char* where);

  const char* begin_;
  const char* end_;
  const char* p_;
  std::string file_;
  const Places* places_;
  mutable const char* counted_;
  mutable std::int64_t line_ = 1;
};

/// The text of a quoted string with escapes resolved.
std::string unescape(std::string_view raw);

}  // namespace tessera::text
