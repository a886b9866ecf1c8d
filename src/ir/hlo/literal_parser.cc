// SPDX-License-Identifier: Apache-2.0
// Parses constants in HLO text, for every dtype.
#include "src/ir/hlo/literal_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"

namespace tessera::ir {
namespace {

class LiteralReader {
 public:
  explicit LiteralReader(HloLexer& in) : in_(in) {}

  Literal read(const Shape& shape) {
    if (shape.is_tuple) return read_tuple(shape);
    if (!shape.is_array()) in_.fail("a token has no constant value");
    std::int64_t count = shape.element_count();
    // Each element takes a character at least: an array that can't be in the text is not allocated.
    if (count > in_.end() - in_.position()) {
      in_.fail("the text is too short for the " + std::to_string(count) + " elements of " +
               shape.to_string());
    }
    if (count == 0) {
      read_empty(shape);
      Shape logical(shape.dtype, shape.dims);
      return Literal(std::move(logical));
    }
    return dispatch(shape);
  }

 private:
  /// One byte of a literal of small floats.
  struct SmallFloat {
    std::uint8_t bits;
  };

  Literal read_tuple(const Shape& shape) {
    in_.expect('(', "before the elements of a tuple literal");
    std::vector<Literal> elements;
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) in_.expect(',', "between the elements of a tuple literal");
      elements.push_back(read(shape.elements[i]));
    }
    in_.expect(')', "after the elements of a tuple literal");
    return Literal::tuple(std::move(elements));
  }

  void read_empty(const Shape& shape) {
    in_.skip();
    const char* start = in_.position();
    if (in_.peek() != '{') in_.fail("expected '{' before the elements of " + shape.to_string());
    std::string_view rest = in_.balanced();
    while (!rest.empty()) {
      const std::size_t comment_end = rest.substr(0, 2) == "/*" ? rest.find("*/", 2) : rest.npos;
      if (comment_end != rest.npos) {
        rest.remove_prefix(comment_end + 2);
        continue;
      }
      if (std::string_view("{}, \n\t\r").find(rest.front()) == rest.npos) {
        in_.fail_at(start, shape.to_string() + " has no elements");
      }
      rest.remove_prefix(1);
    }
  }

  Literal dispatch(const Shape& shape) {
    Literal out(Shape(shape.dtype, shape.dims));
    if (is_small_float(shape.dtype)) {
      auto* next = reinterpret_cast<SmallFloat*>(out.mutable_bytes());
      read_array(shape, 0, next);
      return out;
    }
    try {
      dispatch_dtype(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* next = out.mutable_data<T>().data();
        read_array(shape, 0, next);
      });
    } catch (const NotImplementedError& e) {
      in_.not_supported_at(in_.position(), e.message());
    }
    return out;
  }

  template <class T>
  void read_array(const Shape& shape, std::size_t depth, T*& next) {
    if (depth == shape.dims.size()) {
      read_element(shape.dtype, *next++);
      return;
    }
    in_.skip();
    if (depth == 0 && in_.peek() != '{' && shape.element_count() == 1) {
      read_element(shape.dtype, *next++);  // its one element may stand without braces
      return;
    }
    if (in_.peek() != '{') {
      in_.fail("expected '{' before dim " + std::to_string(depth) + " of a literal " +
               shape.to_string());
    }
    in_.accept('{');
    std::int64_t n = shape.dims[depth];
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0 && !in_.accept(',')) {
        in_.fail("expected ',': dim " + std::to_string(depth) + " of a literal " +
                 shape.to_string() + " has " + std::to_string(n) + " entries and only " +
                 std::to_string(i) + " stand here");
      }
      read_array(shape, depth + 1, next);
    }
    if (!in_.accept('}')) {
      in_.fail("expected '}' after the " + std::to_string(n) + " entries of dim " +
               std::to_string(depth) + " of a literal " + shape.to_string());
    }
  }

  // The characters of one number.
  std::string_view number_text() {
    in_.skip();
    const char* start = in_.position();
    const char* p = start;
    while (p < in_.end()) {
      char c = *p;
      bool part = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '+' || c == '_' || c == '[';
      if (!part) break;
      ++p;
    }
    return {start, std::size_t(p - start)};
  }

  [[noreturn]] void bad(DType t, std::string_view why) {
    in_.fail("expected " + std::string(why) + " for an element of type " + std::string(name(t)));
  }

  template <class T>
  requires std::is_integral_v<T>
  void read_element(DType t, T& out) {
    std::string_view text = number_text();
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    bool complete = end == text.data() + text.size();
    if (error == std::errc::result_out_of_range ||
        (error == std::errc() && complete && wrap_to_dtype(t, out) != out) ||
        // "-1" of an unsigned type.
        (error == std::errc::invalid_argument && std::is_unsigned_v<T> && text.size() > 1 &&
         text[0] == '-')) {
      in_.fail_at(text.data(), "'" + std::string(text) + "' does not fit " + std::string(name(t)));
    }
    if (error != std::errc() || !complete) bad(t, "an integer");
    in_.seek(end);
  }

  void read_element(DType t, Pred& out) {
    std::string_view text = number_text();
    if (text == "true" || text == "1") {
      out = Pred(true);
    } else if (text == "false" || text == "0") {
      out = Pred(false);
    } else {
      bad(t, "true, false, 1 or 0");
    }
    in_.seek(text.data() + text.size());
  }

  // "nan", "-nan", "nan(0x7fc123)"; false if it is none. Gives the bits without the sign.
  bool read_nan(std::string_view text, int mantissa_bits, std::uint64_t* payload, bool* negative) {
    *negative = !text.empty() && text[0] == '-';
    if (text.substr(*negative ? 1 : 0) != "nan") return false;
    in_.seek(text.data() + text.size());
    *payload = std::uint64_t(1) << (mantissa_bits - 1);
    if (in_.position() == in_.end() || *in_.position() != '(') return true;
    const char* open = in_.position();
    in_.accept('(');
    std::string_view hex = number_text();
    std::uint64_t v = 0;
    const char* last = hex.data() + hex.size();
    bool valid = hex.size() > 2 && hex.substr(0, 2) == "0x";
    if (valid) {
      auto [end, error] = std::from_chars(hex.data() + 2, last, v, 16);
      valid =
          error == std::errc() && end == last && v != 0 && v < (std::uint64_t(1) << mantissa_bits);
    }
    if (!valid) {
      in_.fail_at(open, "the payload of a NaN must be 0x1 to 0x" + hex_of(mantissa_bits));
    }
    in_.seek(last);
    in_.expect(')', "after the payload of a NaN");
    *payload = v;
    return true;
  }
  static std::string hex_of(int bits) {
    char buffer[20];
    auto end =
        std::to_chars(buffer, buffer + sizeof buffer, (std::uint64_t(1) << bits) - 1, 16).ptr;
    return std::string(buffer, end);
  }

  template <class T>
  T parse_float(DType t, std::string_view text) {
    T v{};
    const char* last = text.data() + text.size();
    auto [end, error] = std::from_chars(text.data(), last, v);
    if (error == std::errc::result_out_of_range && end == last) {
      // Too large, or too small: that rounds to the nearest number there is.
      long double wide = 0;
      bool known = std::from_chars(text.data(), last, wide).ec == std::errc();
      bool tiny = known ? std::fabs(wide) < 1 : text.find_first_of("eE") < text.find_last_of('-');
      if (!tiny || (!known && text.find_last_of('-') == std::string_view::npos)) {
        in_.fail_at(text.data(),
                    "'" + std::string(text) + "' does not fit " + std::string(name(t)));
      }
      return T(wide);
    }
    bool special = text == "inf" || text == "-inf";
    bool digits =
        !text.empty() &&
        !std::isalpha(static_cast<unsigned char>(text[text[0] == '-' && text.size() > 1 ? 1 : 0]));
    if (error != std::errc() || end != last || !(special || digits)) bad(t, "a number");
    return v;
  }

  void read_element(DType t, float& out) {
    std::string_view text = number_text();
    std::uint64_t payload = 0;
    bool negative = false;
    if (read_nan(text, 23, &payload, &negative)) {
      out = std::bit_cast<float>(std::uint32_t(payload | 0x7f800000u | (negative ? 1u << 31 : 0)));
      return;
    }
    out = parse_float<float>(t, text);
    in_.seek(text.data() + text.size());
  }
  void read_element(DType t, double& out) {
    std::string_view text = number_text();
    std::uint64_t payload = 0;
    bool negative = false;
    if (read_nan(text, 52, &payload, &negative)) {
      out = std::bit_cast<double>(payload | (std::uint64_t(0x7ff) << 52) |
                                  (std::uint64_t(negative) << 63));
      return;
    }
    out = parse_float<double>(t, text);
    in_.seek(text.data() + text.size());
  }
  template <class T>
  void read_small(DType t, T& out, int mantissa_bits) {
    std::string_view text = number_text();
    std::uint64_t payload = 0;
    bool negative = false;
    if (read_nan(text, mantissa_bits, &payload, &negative)) {
      std::uint64_t exponent = 0x7fffu & ~((1u << mantissa_bits) - 1);
      out = T::from_bits(std::uint16_t(payload | exponent | (negative ? 0x8000u : 0)));
      return;
    }
    auto wide = parse_float<double>(t, text);
    out = T(wide);
    if (std::isinf(float(out)) && !std::isinf(wide)) {
      in_.fail_at(text.data(), "'" + std::string(text) + "' does not fit " + std::string(name(t)));
    }
    in_.seek(text.data() + text.size());
  }
  /// Of a type without infinity and NaN: whether a number is more than half a unit in the last
  /// place above the greatest one.
  static bool saturates(DType t, double v) {
    const SmallFloatForm form = small_float_form(t);
    if (form.special != SmallFloatSpecial::none) return false;
    const int all_ones = (1 << (form.exponent_bits + form.mantissa_bits)) - 1;
    const double greatest = small_float_value(t, std::uint8_t(all_ones)),
                 before = small_float_value(t, std::uint8_t(all_ones - 1));
    return std::fabs(v) > greatest + (greatest - before) / 2;
  }
  void read_element(DType t, SmallFloat& out) {
    std::string_view text = number_text();
    std::uint64_t payload = 0;
    bool negative = false;
    const int mantissa_bits = std::max(1, small_float_mantissa_bits(t));
    if (read_nan(text, mantissa_bits, &payload, &negative)) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      out.bits = small_float_bits(t, negative ? -nan : nan);
      if (!std::isnan(small_float_value(t, out.bits))) {
        in_.fail_at(text.data(), std::string(name(t)) + " has no NaN");
      }
      // Another payload, if the type has more than one NaN.
      const std::uint8_t mask = std::uint8_t((1u << mantissa_bits) - 1);
      const auto other = std::uint8_t((out.bits & ~unsigned(mask)) | payload);
      if (payload != std::uint64_t(1) << (mantissa_bits - 1) &&
          std::isnan(small_float_value(t, other))) {
        out.bits = other;
      }
      return;
    }
    auto wide = parse_float<double>(t, text);
    out.bits = small_float_bits(t, wide);
    const double kept = small_float_value(t, out.bits);
    if (std::isfinite(kept) ? saturates(t, wide) : kept != wide) {
      in_.fail_at(text.data(), "'" + std::string(text) + "' does not fit " + std::string(name(t)));
    }
    in_.seek(text.data() + text.size());
  }
  void read_element(DType t, Half& out) { read_small(t, out, 10); }
  void read_element(DType t, BFloat16& out) { read_small(t, out, 7); }

  template <class T>
  void read_element(DType t, std::complex<T>& out) {
    T real{}, imag{};
    if (in_.accept('(')) {
      read_element(t, real);
      in_.expect(',', "between the parts of a complex number");
      read_element(t, imag);
      in_.expect(')', "after the parts of a complex number");
    } else {
      read_element(t, real);
    }
    out = {real, imag};
  }

  HloLexer& in_;
};

}  // namespace

Literal parse_literal(HloLexer& in, const Shape& shape, bool* elided) {
  in.skip();
  *elided = in.accept_text("{...}");
  if (*elided) return Literal();
  return LiteralReader(in).read(shape);
}

}  // namespace tessera::ir
