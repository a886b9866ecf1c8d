// SPDX-License-Identifier: Apache-2.0
// The cursor of the StableHLO reader: tokens, strings, balanced text, error positions.
#include "src/text/read/cursor.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tessera::text {
namespace {

constexpr std::size_t kShown = 40;

}  // namespace

Cursor::Cursor(std::string_view text, const std::string& file, const Places* places)
    : begin_(text.data()),
      end_(text.data() + text.size()),
      p_(begin_),
      file_(file),
      places_(places),
      counted_(begin_) {}

void Cursor::skip_line() {
  const void* newline = std::memchr(p_, '\n', std::size_t(end_ - p_));
  p_ = newline == nullptr ? end_ : static_cast<const char*>(newline);
}

bool Cursor::accept_word(std::string_view word) {
  skip();
  if (rest().substr(0, word.size()) != word) return false;
  const char* after = p_ + word.size();
  if (after < end_ && is_id_char(*after) && *after != '-') return false;
  p_ = after;
  return true;
}

void Cursor::expect_text(std::string_view text, const char* where) {
  if (!accept_text(text)) fail("expected '" + std::string(text) + "' " + where);
}

void Cursor::expect_word(std::string_view word, const char* where) {
  if (!accept_word(word)) fail("expected '" + std::string(word) + "' " + where);
}

std::string_view Cursor::word_or_empty() {
  skip();
  const char* start = p_;
  if (p_ < end_ && is_id_start(*p_)) {
    while (p_ < end_ && is_id_char(*p_) && *p_ != '-') ++p_;
  }
  return {start, std::size_t(p_ - start)};
}

std::string_view Cursor::word(const char* what) {
  std::string_view out = word_or_empty();
  if (out.empty()) fail(std::string("expected ") + what);
  return out;
}

std::string_view Cursor::suffix(const char* what) {
  if (p_ < end_ && *p_ == '"') return raw_string(what);
  const char* start = p_;
  while (p_ < end_ && is_id_char(*p_)) {
    // "%a->" is a name and an arrow.
    if (*p_ == '-' && p_ + 1 < end_ && p_[1] == '>') break;
    ++p_;
  }
  if (p_ == start) fail(std::string("expected ") + what);
  return {start, std::size_t(p_ - start)};
}

std::int64_t Cursor::integer(const char* what) {
  skip();
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(p_, end_, v);
  if (error == std::errc::result_out_of_range) {
    fail(std::string("expected ") + what + " that fits 64 bits");
  }
  if (error != std::errc()) fail(std::string("expected ") + what);
  p_ = end;
  return v;
}

std::string_view Cursor::raw_string(const char* what) {
  skip();
  const char* start = p_;
  if (p_ == end_ || *p_ != '"') fail(std::string("expected ") + what + " in double quotes");
  ++p_;
  while (true) {
    // Blobs of constants are long: look for the quote, then at what stands before it.
    const void* found = std::memchr(p_, '"', std::size_t(end_ - p_));
    if (found == nullptr) fail_at(start, "the quoted text has no end (expected '\"')");
    const char* quote = static_cast<const char*>(found);
    const char* slash = quote;
    while (slash > start + 1 && slash[-1] == '\\') --slash;
    p_ = quote + 1;
    if ((quote - slash) % 2 == 0) return {start + 1, std::size_t(quote - start - 1)};
  }
}

std::string Cursor::string(const char* what) { return unescape(raw_string(what)); }

std::string unescape(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return std::string(raw);
  auto digit = [](char c) {
    if (is_decimal(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
      continue;
    }
    char c = raw[++i];
    if (i + 1 < raw.size() && digit(c) >= 0 && digit(raw[i + 1]) >= 0) {
      out += char(digit(c) * 16 + digit(raw[i + 1]));
      ++i;
    } else if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else {
      out += c;
    }
  }
  return out;
}

Dims Cursor::bracketed_integers(const char* what) {
  Dims out;
  expect('[', what);
  if (accept(']')) return out;
  do {
    out.push_back(integer(what));
  } while (accept(','));
  expect(']', what);
  return out;
}

namespace {

/// What closes a bracket; 0 for any other character.
char closer_of(char c) {
  switch (c) {
    case '(':
      return ')';
    case '[':
      return ']';
    case '{':
      return '}';
    case '<':
      return '>';
    default:
      return 0;
  }
}

}  // namespace

void Cursor::close(std::string* open) {
  if (open->back() != *p_) {
    fail_at(p_, std::string("expected '") + open->back() + "', found '" + *p_ + "'");
  }
  open->pop_back();
}

std::string_view Cursor::balanced() {
  skip();
  const char* start = p_;
  std::string open;  // what closes each bracket that is open
  for (; p_ < end_; ++p_) {
    switch (*p_) {
      case '"':
        if (!open.empty()) raw_string("a text"), --p_;
        break;
      case '(':
      case '[':
      case '{':
      case '<':
        open.push_back(closer_of(*p_));
        break;
      case '>':
        if (p_ > start && p_[-1] == '-') break;
        [[fallthrough]];
      case ')':
      case ']':
      case '}':
        if (open.empty()) break;
        close(&open);
        if (!open.empty()) break;
        ++p_;
        return {start, std::size_t(p_ - start)};
      case '/':
        if (p_ + 1 < end_ && p_[1] == '/') skip_line(), --p_;
        break;
      default:
        break;
    }
    if (open.empty()) fail_at(start, "expected an opening bracket");
  }
  fail_at(start, "the bracket is not closed");
}

std::string_view Cursor::value() {
  skip();
  const char* start = p_;
  const char* last = p_;
  std::string open;  // what closes each bracket that is open
  for (; p_ < end_; ++p_) {
    switch (*p_) {
      case '"':
        raw_string("a text");
        last = p_--;
        continue;
      case '(':
      case '[':
      case '{':
      case '<':
        open.push_back(closer_of(*p_));
        break;
      case '>':
        if (p_ > start && p_[-1] == '-') break;
        [[fallthrough]];
      case ')':
      case ']':
      case '}':
        if (open.empty()) goto done;
        close(&open);
        break;
      case ',':
        if (open.empty()) goto done;
        break;
      case '/':
        if (p_ + 1 < end_ && p_[1] == '/') {
          skip_line();
          --p_;
          continue;
        }
        break;
      case ' ':
      case '\n':
      case '\t':
      case '\r':
        continue;
      default:
        break;
    }
    last = p_ + 1;
  }
done:
  if (last == start) fail("expected a value");
  return {start, std::size_t(last - start)};
}

std::int64_t Cursor::line_at(const char* where) const {
  if (where < counted_) {
    line_ -= std::count(where, counted_, '\n');
  } else {
    line_ += std::count(counted_, where, '\n');
  }
  counted_ = where;
  return line_;
}

std::string Cursor::placed(const char* where, const std::string& message) const {
  if (places_ != nullptr) return places_->placed(where, message);
  const char* start = where;
  while (start > begin_ && start[-1] != '\n') --start;
  std::string out = "column " + std::to_string(where - start + 1) + ": " + message;
  // The line with a mark below, cut to what a terminal shows.
  constexpr std::ptrdiff_t kBefore = 60, kAfter = 40;
  const char* from = where - start > kBefore ? where - kBefore : start;
  out += "\n  ";
  for (const char* c = from; c < end_ && *c != '\n' && c - where < kAfter; ++c) {
    out += static_cast<unsigned char>(*c) < 0x20 ? ' ' : *c;
  }
  return out + "\n  " + std::string(std::size_t(where - from), ' ') + "^";
}

void Cursor::fail_expected(char c, const char* where) {
  fail("expected '" + std::string(1, c) + "' " + where);
}

void Cursor::fail(const std::string& message) {
  skip();
  const char* stop = p_;
  if (p_ < end_ && is_id_char(*p_)) {
    while (stop < end_ && is_id_char(*stop) && std::size_t(stop - p_) < kShown) ++stop;
  } else {
    while (stop < end_ && *stop != '\n' && *stop != ' ' && std::size_t(stop - p_) < kShown) ++stop;
  }
  std::string found = p_ == end_ ? "the end of the text" : "'" + std::string(p_, stop) + "'";
  fail_at(p_, message + ", found " + found);
}

void Cursor::fail_at(const char* where, const std::string& message) const {
  throw ParseError(placed(where, message), location_at(where));
}

void Cursor::not_supported_at(const char* where, const std::string& message) const {
  throw NotImplementedError(placed(where, message), location_at(where));
}

Location Cursor::location_at(const char* where) const {
  if (places_ != nullptr) return places_->location_at(where);
  return make_location(file_, unsigned(line_at(where)));
}

}  // namespace tessera::text
