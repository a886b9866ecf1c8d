// SPDX-License-Identifier: Apache-2.0
// Dictionaries of attributes as HLO text prints them.
#include <tessera/custom/call_attributes.h>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/arrays/dtype_names.h"
#include "src/base/files/plain_numbers.h"
#include "src/ir/hlo/text_out.h"

namespace tessera {
namespace {

constexpr int kMaxNested = 32;

std::string number_text(double v) {
  if (std::isnan(v)) return "0x7FC00000";
  std::string out;
  for (int digits = 6; digits <= 17; ++digits) {
    out = fmt::format("{:.{}g}", v, digits);
    if (read_double(out.c_str(), nullptr) == v) break;
  }
  // MLIR wants a point in every float.
  if (out.find_first_of(".ni") == std::string::npos) {
    const std::size_t e = out.find('e');
    out.insert(e == std::string::npos ? out.size() : e, ".0");
  }
  return out;
}

std::string entries_text(const CallAttributes::Entries& entries) {
  std::string out = "{";
  for (const auto& [key, value] : entries) {
    if (out.size() > 1) out += ", ";
    out += key + " = " + value.to_string();
  }
  return out + "}";
}

class Reader {
 public:
  Reader(std::string_view text, Location location) : text_(text), location_(location) {}

  CallAttributes::Entries dictionary(int depth = 0) {
    if (depth > kMaxNested) fail("dictionaries nest too deeply");
    CallAttributes::Entries out;
    expect('{');
    if (accept('}')) return out;
    do {
      const std::string key = peek() == '"' ? quoted() : word("a name");
      CallAttribute value = true;  // a name alone: a unit attribute
      if (accept('=')) value = this->value(depth);
      if (!out.emplace(key, std::move(value)).second) fail("'" + key + "' stands twice");
    } while (accept(','));
    expect('}');
    return out;
  }

  void end() {
    if (peek() != '\0') fail("text after the attributes");
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw ParseError("attributes of a custom call: " + what + " at character " +
                         std::to_string(at_) + " of '" + std::string(text_.substr(0, 200)) + "'",
                     location_);
  }
  char peek() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  std::string word(const std::string& what) {
    peek();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '$')) {
      ++at_;
    }
    if (at_ == begin) fail("expected " + what);
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    expect('"');
    std::string out;
    auto hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        // MLIR: \n, \t, \", \\ and two hex digits.
        if (at_ + 1 < text_.size() && hex(text_[at_]) && hex(text_[at_ + 1])) {
          c = char(std::stoi(std::string(text_.substr(at_, 2)), nullptr, 16));
          at_ += 2;
        } else {
          c = text_[at_++];
          c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
      }
      out += c;
    }
    if (at_ >= text_.size()) fail("a string without end");
    ++at_;
    return out;
  }
  DType type() {
    const std::string w = word("a type");
    const auto t = dtype_from_mlir(w);
    if (!t) fail("unknown type '" + w + "'");
    return *t;
  }
  std::string number_word() {
    peek();
    const std::size_t begin = at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') &&
             (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E')))) {
      ++at_;
    }
    if (at_ == begin) fail("expected a value");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::int64_t integer(const std::string& w) {
    std::int64_t v = 0;
    const char* begin = w.data() + (w[0] == '+' ? 1 : 0);
    auto [end, error] = std::from_chars(begin, w.data() + w.size(), v);
    if (error == std::errc() && end == w.data() + w.size()) return v;
    std::uint64_t u = 0;  // the upper half of ui64
    auto [stop, wrong] = std::from_chars(begin, w.data() + w.size(), u);
    if (wrong != std::errc() || stop != w.data() + w.size()) fail("'" + w + "' is no integer");
    return std::int64_t(u);
  }
  double real(const std::string& w, DType t) {
    if (w.size() > 2 && w[0] == '0' && (w[1] == 'x' || w[1] == 'X')) {  // bits
      std::uint64_t bits = 0;
      auto [end, error] = std::from_chars(w.data() + 2, w.data() + w.size(), bits, 16);
      if (error != std::errc() || end != w.data() + w.size()) fail("'" + w + "' is no number");
      if (t == DType::f64) {
        double v;
        std::memcpy(&v, &bits, sizeof v);
        return v;
      }
      const std::uint32_t low = std::uint32_t(bits);
      float v;
      std::memcpy(&v, &low, sizeof v);
      return double(v);
    }
    char* end = nullptr;
    const double v = read_double(w.c_str(), &end);
    if (end != w.c_str() + w.size()) fail("'" + w + "' is no number");
    return v;
  }

  CallAttribute array() {
    expect('<');
    const DType t = type();
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    if (accept(':')) {
      do {
        const std::string w = number_word();
        if (is_floating(t)) {
          reals.push_back(real(w, t));
        } else {
          integers.push_back(w == "true" ? 1 : w == "false" ? 0 : integer(w));
        }
      } while (accept(','));
    }
    expect('>');
    if (is_floating(t)) return CallAttribute(t, std::move(reals));
    return CallAttribute(t, std::move(integers));
  }

  /// [1 : i64, 2 : i64]
  CallAttribute list() {
    expect('[');
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    DType t = DType::s64;
    if (!accept(']')) {
      do {
        const CallAttribute v = value(kMaxNested);
        t = v.dtype;
        if (const auto* i = std::get_if<std::int64_t>(&v.value)) {
          integers.push_back(*i);
        } else if (const auto* d = std::get_if<double>(&v.value)) {
          reals.push_back(*d);
        } else {
          fail("a list of something else than numbers");
        }
      } while (accept(','));
      expect(']');
    }
    if (!reals.empty() && !integers.empty()) fail("a list of integers and floats");
    if (!reals.empty()) return CallAttribute(t, std::move(reals));
    return CallAttribute(t, std::move(integers));
  }

  CallAttribute value(int depth) {
    const char c = peek();
    if (c == '"') return CallAttribute(quoted());
    if (c == '{') return CallAttribute(dictionary(depth + 1));
    if (c == '[') return list();
    if (std::isalpha(static_cast<unsigned char>(c))) {
      const std::string w = word("a value");
      if (w == "true") return true;
      if (w == "false") return false;
      if (w == "array") return array();
      if (w == "unit") return true;
      fail("unknown value '" + w + "'");
    }
    const std::string w = number_word();
    const bool hex = w.find("0x") != std::string::npos;
    DType t = !hex && w.find_first_of(".eE") != std::string::npos ? DType::f64 : DType::s64;
    if (accept(':')) t = type();
    if (is_floating(t)) return CallAttribute(t, real(w, t));
    if (t == DType::pred) return CallAttribute(integer(w) != 0);
    return CallAttribute(t, integer(w));
  }

  std::string_view text_;
  Location location_;
  std::size_t at_ = 0;
};

}  // namespace

CallAttribute::CallAttribute(const char* text) : CallAttribute(std::string(text)) {}
CallAttribute::CallAttribute(std::string text) : dtype(DType::token), value(std::move(text)) {}
CallAttribute::CallAttribute(std::vector<std::int64_t> values)
    : dtype(DType::s64), value(std::move(values)) {}
CallAttribute::CallAttribute(std::vector<double> values)
    : dtype(DType::f64), value(std::move(values)) {}
CallAttribute::CallAttribute(std::map<std::string, CallAttribute> entries)
    : dtype(DType::token), value(std::move(entries)) {}
CallAttribute::CallAttribute(DType type, Value v) : dtype(type), value(std::move(v)) {}
CallAttribute::CallAttribute(const CallAttribute&) = default;
CallAttribute::CallAttribute(CallAttribute&&) noexcept = default;
CallAttribute& CallAttribute::operator=(const CallAttribute&) = default;
CallAttribute& CallAttribute::operator=(CallAttribute&&) noexcept = default;
CallAttribute::~CallAttribute() = default;

CallAttribute CallAttribute::number(DType type, bool v) { return CallAttribute(type, Value(v)); }
CallAttribute CallAttribute::number(DType type, std::int64_t v) {
  return CallAttribute(type, Value(v));
}
CallAttribute CallAttribute::number(DType type, double v) { return CallAttribute(type, Value(v)); }

bool operator==(const CallAttribute& a, const CallAttribute& b) {
  return a.dtype == b.dtype && a.value == b.value;
}

std::string CallAttribute::to_string() const {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    const std::string number =
        dtype == DType::u64 ? std::to_string(std::uint64_t(*i)) : std::to_string(*i);
    return number + " : " + std::string(mlir_name(dtype));
  }
  if (const double* d = std::get_if<double>(&value)) {
    return number_text(*d) + " : " + std::string(mlir_name(dtype));
  }
  if (const auto* s = std::get_if<std::string>(&value)) {
    std::string out;
    ir::append_quoted(out, *s);
    return out;
  }
  if (const auto* entries = std::get_if<std::map<std::string, CallAttribute>>(&value)) {
    return entries_text(*entries);
  }
  std::string out = "array<" + std::string(mlir_name(dtype));
  const char* separator = ": ";
  auto add = [&](const std::string& number) {
    out += separator + number;
    separator = ", ";
  };
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (std::int64_t v : *list) {
      add(dtype == DType::pred ? (v != 0 ? "true" : "false") : std::to_string(v));
    }
  } else {
    for (double v : std::get<std::vector<double>>(value)) add(number_text(v));
  }
  return out + ">";
}

CallAttributes::CallAttributes() = default;
CallAttributes::CallAttributes(
    std::initializer_list<std::pair<const std::string, CallAttribute>> entries)
    : entries_(entries) {}
CallAttributes::CallAttributes(Entries entries) : entries_(std::move(entries)) {}
CallAttributes::CallAttributes(const CallAttributes&) = default;
CallAttributes::CallAttributes(CallAttributes&&) noexcept = default;
CallAttributes& CallAttributes::operator=(const CallAttributes&) = default;
CallAttributes& CallAttributes::operator=(CallAttributes&&) noexcept = default;
CallAttributes::~CallAttributes() = default;

bool CallAttributes::has(const std::string& name) const { return entries_.contains(name); }

bool operator==(const CallAttributes& a, const CallAttributes& b) {
  return a.entries_ == b.entries_ && a.opaque_ == b.opaque_;
}

CallAttributes CallAttributes::parse(std::string_view text, Location location) {
  CallAttributes out;
  const std::size_t first = text.find_first_not_of(" \n\t\r");
  if (first == std::string_view::npos) return out;
  if (text[first] != '{') {
    out.opaque_ = std::string(text);
    if (out.opaque_.size() >= 2 && out.opaque_.front() == '"' && out.opaque_.back() == '"') {
      out.opaque_ = out.opaque_.substr(1, out.opaque_.size() - 2);
    }
    return out;
  }
  // JSON, as other backends' configs are, has quoted keys and colons: opaque here.
  const std::size_t second = text.find_first_not_of(" \n\t\r", first + 1);
  if (second != std::string_view::npos && text[second] == '"') {
    const std::size_t close = text.find('"', second + 1);
    const std::size_t after =
        close == std::string_view::npos ? close : text.find_first_not_of(" \n\t\r", close + 1);
    if (after != std::string_view::npos && text[after] == ':') {
      out.opaque_ = std::string(text);
      return out;
    }
  }
  Reader reader(text, location);
  out.entries_ = reader.dictionary();
  reader.end();
  return out;
}

std::string CallAttributes::to_string() const {
  return entries_.empty() && !opaque_.empty() ? opaque_ : entries_text(entries_);
}

const CallAttribute& CallAttributes::find(const std::string& name, Location location) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) {
    throw ValueError("a custom call has no attribute '" + name + "'; it has " + to_string(),
                     location);
  }
  return at->second;
}

void CallAttributes::wrong_type(const std::string& name, const CallAttribute& a,
                                Location location) const {
  throw ValueError("attribute '" + name + "' of a custom call is " + a.to_string() +
                       ", which doesn't fit the type asked for",
                   location);
}

}  // namespace tessera
