// SPDX-License-Identifier: Apache-2.0
// A position in HLO text, and the small things that are read at it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "src/base/arrays/shape.h"

namespace tessera::ir {

/// Reads straight from the text: no tokens are stored and nothing is copied but quoted text.
class HloLexer {
 public:
  HloLexer(std::string_view text, const std::string& file);

  const char* position() const { return p_; }
  /// Goes to a place of the same text.
  void seek(const char* p) { p_ = p; }
  const char* end() const { return end_; }
  std::int64_t size() const { return end_ - begin_; }

  /// Passes over blanks and comments.
  void skip() {
    while (p_ < end_) {
      char c = *p_;
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++p_;
      } else if (c == '/') {
        if (!skip_comment()) return;
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
  char peek() {
    skip();
    return p_ < end_ ? *p_ : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++p_;
    return true;
  }
  /// Takes "->", "<=".
  bool accept_text(std::string_view text) {
    skip();
    if (rest().substr(0, text.size()) != text) return false;
    p_ += text.size();
    return true;
  }
  /// Takes exactly this word.
  bool accept_word(std::string_view word);
  void expect(char c, std::string_view where) {
    if (!accept(c)) fail("expected '" + std::string(1, c) + "' " + std::string(where));
  }
  /// Letters, digits, '_', '.', '-'; not starting with a digit.
  std::string_view word(std::string_view what);
  /// A word with or without '%'.
  std::string_view name(std::string_view what);
  /// True if a word comes next.
  bool at_word();
  std::int64_t integer(std::string_view what);
  /// "{1,0}", also with comments and a trailing nothing.
  Dims braced_integers(std::string_view what);
  /// Text in double quotes, escapes resolved.
  std::string quoted(std::string_view what);
  /// From an opening bracket to the matching one, quotes respected; all kinds nest.
  std::string_view balanced();
  /// The value of an attribute as it stands.
  std::string_view value();

  /// f32[8,16]{1,0} or a tuple.
  Shape shape();
  /// True if a shape comes next (`f32[`, `(`).
  bool at_shape();

  /// ParseError at the current place: what was expected and what stands there.
  [[noreturn]] void fail(const std::string& message);
  [[noreturn]] void fail_at(const char* where, const std::string& message) const;
  /// As fail_at, for text that is valid and not supported.
  [[noreturn]] void not_supported_at(const char* where, const std::string& message) const;
  /// Errors at a place of this text are those of `refuse`, which throws.
  using Refuse = std::function<void(const char* where, const std::string& message)>;
  void refuse_by(Refuse refuse) { refuse_ = std::move(refuse); }
  /// file:line of a place. Cheap when the places go forward from call to call.
  Location location_at(const char* where) const;

 private:
  std::string_view rest() const { return {p_, std::size_t(end_ - p_)}; }
  bool skip_comment();
  Shape shape(int depth);
  void layout(Shape* shape);
  std::string placed(const char* where, const std::string& message) const;

  const char* begin_;
  const char* end_;
  const char* p_;
  const char* file_;
  mutable const char* counted_;
  mutable unsigned line_ = 1;
  Refuse refuse_;
};

}  // namespace tessera::ir
