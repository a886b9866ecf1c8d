// SPDX-License-Identifier: Apache-2.0
// The lexer of HLO text: words, numbers, shapes and layouts, error positions.
#include "src/ir/hlo/hlo_lexer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "src/base/contains.h"
#include "src/ir/limits.h"
#include "src/ir/names.h"

namespace tessera::ir {
namespace {

constexpr std::size_t kMaxRank = 255;

}  // namespace

HloLexer::HloLexer(std::string_view text, const std::string& file)
    : begin_(text.data()),
      end_(text.data() + text.size()),
      p_(begin_),
      file_(make_location(file, 1).file),
      counted_(begin_) {}

bool HloLexer::skip_comment() {
  if (end_ - p_ < 2) return false;
  if (p_[1] == '/') {
    const void* newline = std::memchr(p_, '\n', std::size_t(end_ - p_));
    p_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
    return true;
  }
  if (p_[1] != '*') return false;
  std::size_t close = rest().find("*/", 2);
  if (close == std::string_view::npos) fail_at(p_, "the comment has no end (expected '*/')");
  p_ += close + 2;
  return true;
}

bool HloLexer::at_word() {
  char c = peek();
  return is_name_start(c);
}

std::string_view HloLexer::word(std::string_view what) {
  skip();
  const char* start = p_;
  if (p_ < end_ && is_name_start(*p_)) {
    while (p_ < end_ && is_name_char(*p_)) {
      // "a->b" is a, an arrow and b.
      if (*p_ == '-' && p_ + 1 < end_ && p_[1] == '>') break;
      ++p_;
    }
  }
  if (p_ == start) fail("expected " + std::string(what));
  return {start, std::size_t(p_ - start)};
}

bool HloLexer::accept_word(std::string_view expected) {
  if (!at_word()) return false;
  const char* start = p_;
  if (word("a word") == expected) return true;
  p_ = start;
  return false;
}

std::string_view HloLexer::name(std::string_view what) {
  skip();
  if (p_ < end_ && *p_ == '%') {
    ++p_;
    const char* start = p_;
    // Behind '%' a name may start with a digit.
    while (p_ < end_ && is_name_char(*p_)) ++p_;
    if (p_ == start) fail("expected " + std::string(what) + " behind '%'");
    return {start, std::size_t(p_ - start)};
  }
  return word(what);
}

std::int64_t HloLexer::integer(std::string_view what) {
  skip();
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(p_, end_, v);
  if (error == std::errc::result_out_of_range) {
    fail("expected " + std::string(what) + " that fits 64 bits");
  }
  if (error != std::errc() || (end < end_ && (is_name_start(*end) && *end != 'x' && *end != '_'))) {
    fail("expected " + std::string(what));
  }
  p_ = end;
  return v;
}

Dims HloLexer::braced_integers(std::string_view what) {
  expect('{', "before " + std::string(what));
  Dims out;
  if (accept('}')) return out;
  do {
    out.push_back(integer(what));
  } while (accept(','));
  expect('}', "after " + std::string(what));
  return out;
}

std::string HloLexer::quoted(std::string_view what) {
  skip();
  const char* start = p_;
  if (p_ == end_ || *p_ != '"') fail("expected " + std::string(what) + " in double quotes");
  ++p_;
  std::string out;
  while (true) {
    if (p_ == end_) fail_at(start, "the quoted text has no end (expected '\"')");
    char c = *p_++;
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (p_ == end_) fail_at(start, "the quoted text has no end (expected '\"')");
    c = *p_++;
    switch (c) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'x': {
        unsigned v = 0;
        auto [end, error] = std::from_chars(p_, std::min(p_ + 2, end_), v, 16);
        if (error != std::errc()) fail_at(p_, "expected hexadecimal digits behind \\x");
        p_ = end;
        out += char(v);
        break;
      }
      default:
        if (c >= '0' && c <= '7') {
          unsigned v = 0;
          --p_;
          p_ = std::from_chars(p_, std::min(p_ + 3, end_), v, 8).ptr;
          out += char(v);
        } else {
          out += c;
        }
    }
  }
}

std::string_view HloLexer::balanced() {
  const char* start = p_;
  std::string stack;
  do {
    if (p_ == end_) {
      fail_at(start,
              "the bracket is not closed (expected '" + stack.substr(stack.size() - 1) + "')");
    }
    char c = *p_;
    switch (c) {
      case '{':
        stack += '}';
        break;
      case '(':
        stack += ')';
        break;
      case '[':
        stack += ']';
        break;
      case '}':
      case ')':
      case ']':
        if (stack.back() != c) fail("expected '" + stack.substr(stack.size() - 1) + "'");
        stack.pop_back();
        break;
      case '"': {
        const char* open = p_++;
        while (p_ < end_ && *p_ != '"') p_ += *p_ == '\\' && p_ + 1 < end_ ? 2 : 1;
        if (p_ == end_) {
          fail_at(open, "the quoted text has no end (expected '\"')");
        }
        break;
      }
      default:
        break;
    }
    ++p_;
  } while (!stack.empty());
  return {start, std::size_t(p_ - start)};
}

std::string_view HloLexer::value() {
  skip();
  const char* start = p_;
  if (p_ < end_ && *p_ == '"') {
    ++p_;
    while (p_ < end_ && *p_ != '"') p_ += *p_ == '\\' && p_ + 1 < end_ ? 2 : 1;
    if (p_ == end_ || *p_ != '"') {
      fail_at(start, "the quoted text has no end (expected '\"')");
    }
    ++p_;
    return {start, std::size_t(p_ - start)};
  }
  if (p_ < end_ && *p_ == '{') return balanced();
  bool named_mesh = rest().substr(0, 5) == "mesh[";
  while (p_ < end_) {
    char c = *p_;
    if (c == '[' || c == '(' || c == '{') {
      balanced();
      if (named_mesh && c == '[') {
        // `mesh['a'=2], device_ids=(1,0) {'a'}` is one value in spite of the comma.
        skip();
        const char* comma = p_;
        if (accept(',') && accept_word("device_ids") && accept('=') && peek() == '(') {
          balanced();
          skip();
        } else {
          p_ = comma;
        }
      }
      if (named_mesh && c == '{') break;
      continue;
    }
    if (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '}' || c == ')') break;
    ++p_;
  }
  if (p_ == start) fail("expected a value");
  return {start, std::size_t(p_ - start)};
}

bool HloLexer::at_shape() {
  char c = peek();
  if (c == '(') return true;
  if (!is_name_start(c)) return false;
  const char* q = p_;
  while (q < end_ && is_name_char(*q)) ++q;
  return q < end_ && *q == '[';
}

Shape HloLexer::shape() { return shape(0); }

Shape HloLexer::shape(int depth) {
  skip();
  const char* start = p_;
  if (accept('(')) {
    if (depth >= kMaxTupleDepth) {
      fail_at(start, "tuples nest deeper than " + std::to_string(kMaxTupleDepth));
    }
    std::vector<Shape> elements;
    if (!accept(')')) {
      do {
        elements.push_back(shape(depth + 1));
      } while (accept(','));
      expect(')', "after the elements of a tuple shape");
    }
    return Shape::tuple(std::move(elements));
  }
  std::string_view type = word("a shape");
  if (type == "b" && peek() == '(') {
    not_supported_at(start, "buffer types b(...) are not supported");
  }
  if (type == "opaque") not_supported_at(start, "values of type opaque[] are not supported");
  std::optional<DType> dtype = dtype_from_name(type);
  if (!dtype) fail_at(start, "'" + std::string(type) + "' is no element type");
  Shape out(*dtype, {});
  expect('[', "after the element type");
  if (!accept(']')) {
    do {
      skip();
      if (p_ < end_ && (*p_ == '?' || *p_ == '<')) {
        not_supported_at(
            p_,
            "dynamic dimensions (<=8, ?) are not supported in HLO; valid: a size, or the "
            "program as StableHLO, which is read for the sizes of its arguments");
      }
      const char* at = p_;
      out.dims.push_back(integer("a dimension"));
      if (out.dims.back() < 0) fail_at(at, "a dimension must not be negative");
    } while (accept(','));
    expect(']', "after the dimensions");
  }
  if (out.dims.size() > kMaxRank) {
    fail_at(start, "arrays of more than " + std::to_string(kMaxRank) + " dimensions");
  }
  if (*dtype == DType::token && !out.dims.empty()) fail_at(start, "a token has no dimensions");
  std::int64_t count = 1;
  bool empty = contains(out.dims, 0);
  bool overflow = false;
  for (std::int64_t d : out.dims) overflow = overflow || __builtin_mul_overflow(count, d, &count);
  std::int64_t bytes = 0;
  overflow = overflow || __builtin_mul_overflow(count, std::int64_t(byte_size(*dtype)), &bytes);
  if (overflow && !empty) fail_at(start, "the array's size does not fit 64 bits");
  layout(&out);
  return out;
}

void HloLexer::layout(Shape* shape) {
  // A brace that opens a computation's body has a name behind it.
  const char* before = p_;
  if (p_ == end_ || *p_ != '{') {
    skip();
    if (p_ == end_ || *p_ != '{') {
      p_ = before;
      return;
    }
  }
  const char* start = p_;
  bool adjacent = start == before;
  ++p_;
  char next = peek();
  if (!(is_digit(next) || next == ':' || (next == '}' && adjacent))) {
    p_ = before;
    return;
  }
  Dims order;
  if (is_digit(next)) {
    do {
      if (order.size() > shape->dims.size()) {
        fail_at(start, "the layout has more than the " + std::to_string(shape->dims.size()) +
                           " dimensions of " + shape->to_string());
      }
      order.push_back(integer("a dimension of the layout"));
    } while (accept(','));
  }
  if (accept(':')) {
    // Tiles, memory spaces and the like: how a device stores it, no part of the meaning.
    while (p_ < end_ && *p_ != '}' && *p_ != '\n') {
      if (*p_ == '(' || *p_ == '[') {
        balanced();
      } else {
        ++p_;
      }
    }
  }
  expect('}', "after the layout");
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = order.size() == shape->dims.size();
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) {
    permutation = sorted[i] == std::int64_t(i);
  }
  if (!permutation && !order.empty()) {
    fail_at(start, "the layout {" + join(order) + "} is no order of the " +
                       std::to_string(shape->dims.size()) + " dimensions of " + shape->to_string());
  }
  if (!is_row_major(order)) shape->layout = std::move(order);
}

Location HloLexer::location_at(const char* where) const {
  if (where < counted_) {
    counted_ = begin_;
    line_ = 1;
  }
  line_ += unsigned(std::count(counted_, where, '\n'));
  counted_ = where;
  return Location{file_, line_};
}

std::string HloLexer::placed(const char* where, const std::string& message) const {
  const char* line = where;
  while (line > begin_ && line[-1] != '\n') --line;
  std::string out = "column " + std::to_string(where - line + 1) + ": " + message;
  // The line with a mark below, cut to what a terminal shows.
  constexpr std::ptrdiff_t kBefore = 60, kAfter = 40;
  const char* from = std::max(line, where - kBefore);
  const char* to = where;
  while (to < end_ && *to != '\n' && to - where < kAfter) ++to;
  out += "\n  ";
  for (const char* c = from; c < to; ++c) {
    out += static_cast<unsigned char>(*c) < 0x20 ? ' ' : *c;
  }
  return out + "\n  " + std::string(std::size_t(where - from), ' ') + "^";
}

void HloLexer::fail(const std::string& message) {
  skip();
  std::string found = "the end of the text";
  if (p_ < end_) {
    const char* q = p_;
    while (q < end_ && is_name_char(*q) && q - p_ < 40) ++q;
    if (q == p_) ++q;
    found = "'" + std::string(p_, q) + "'";
  }
  fail_at(p_, message + ", found " + found);
}

void HloLexer::fail_at(const char* where, const std::string& message) const {
  if (refuse_) refuse_(where, message);
  throw ParseError(placed(where, message), location_at(where));
}

void HloLexer::not_supported_at(const char* where, const std::string& message) const {
  if (refuse_) refuse_(where, message);
  throw NotImplementedError(placed(where, message), location_at(where));
}

}  // namespace tessera::ir
