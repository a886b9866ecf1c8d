// SPDX-License-Identifier: Apache-2.0
// A cursor over text, for the small parsers of this layer.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/error.h>

namespace tessera {

class TextCursor {
 public:
  TextCursor(std::string_view text, const char* what) : text_(text), what_(what) {}

  bool at_end() {
    skip_space();
    return position_ >= text_.size();
  }
  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  /// Consumes `token` if it comes next. A word must end there.
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(position_, token.size()) != token) return false;
    const std::size_t end = position_ + token.size();
    if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
    position_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }
  std::int64_t integer() {
    skip_space();
    const std::size_t begin = position_;
    std::int64_t v = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      if (__builtin_mul_overflow(v, std::int64_t(10), &v) ||
          __builtin_add_overflow(v, std::int64_t(text_[position_] - '0'), &v)) {
        fail("number too large");
      }
      ++position_;
    }
    if (position_ == begin) fail("expected a number");
    return v;
  }
  /// Letters, digits, '_', '-', '.', '$'; may be empty.
  std::string word() {
    skip_space();
    const std::size_t begin = position_;
    while (position_ < text_.size() && (is_word(text_[position_]) || text_[position_] == '-' ||
                                        text_[position_] == '.' || text_[position_] == '$')) {
      ++position_;
    }
    return std::string(text_.substr(begin, position_ - begin));
  }
  /// Text in the given quotes, backslash escapes resolved.
  std::string quoted(char quote) {
    expect(std::string_view(&quote, 1));
    std::string out;
    while (position_ < text_.size() && text_[position_] != quote) {
      if (text_[position_] == '\\' && position_ + 1 < text_.size()) {
        ++position_;
        // MLIR writes unprintable bytes as two hexadecimal digits.
        unsigned byte = 0;
        const char* digits = text_.data() + position_;
        if (text_.size() - position_ >= 2 &&
            std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
          out += char(byte);
          position_ += 2;
          continue;
        }
      }
      out += text_[position_++];
    }
    if (position_ >= text_.size()) fail("the quoted text has no end");
    ++position_;
    return out;
  }
  void skip_one() {
    if (position_ >= text_.size()) fail("the text ends too early");
    ++position_;
  }
  /// Skips text in braces, which may contain quoted strings.
  void skip_braces() {
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (position_ >= text_.size()) fail("the braces have no end");
      const char c = text_[position_];
      if (c == '"') {
        quoted('"');
        continue;
      }
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      ++position_;
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < position_ && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    constexpr std::size_t kShown = 400;
    const std::string shown =
        text_.size() <= kShown ? std::string(text_) : std::string(text_.substr(0, kShown)) + "...";
    throw ParseError(std::string(what_) + " '" + shown + "', line " + std::to_string(line) +
                     ", column " + std::to_string(column) + ": " + why);
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' ||
                                        text_[position_] == '\t' || text_[position_] == '\r')) {
      ++position_;
    }
  }

  std::string_view text_;
  const char* what_;
  std::size_t position_ = 0;
};

}  // namespace tessera
