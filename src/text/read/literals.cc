// SPDX-License-Identifier: Apache-2.0
// dense<...>: numbers, nested lists, blobs in hexadecimal.
#include <bit>
#include <charconv>
#include <cstring>

#include "src/base/literal_util.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

constexpr std::size_t kMaxNesting = 260;

int hex_digit(char c) {
  if (is_decimal(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Bits of a float of fewer than 16 bits nearest to v, ties to even.
std::uint8_t small_float_bits(DType t, double v);

// Reads the elements of one literal, row-major.
class Elements {
 public:
  Elements(Cursor& in, const Shape& type, std::byte* to) : in_(in), type_(type), to_(to) {
    part_ = is_complex(type.dtype) ? real_type(type.dtype) : type.dtype;
    size_ = byte_size(part_);
  }

  void one() {
    if (is_complex(type_.dtype)) {
      in_.expect('(', "before the parts of a complex number");
      number();
      in_.expect(',', "between the parts of a complex number");
      number();
      in_.expect(')', "after the parts of a complex number");
    } else {
      number();
    }
  }

  void list(std::size_t dim) {
    if (dim == type_.dims.size()) {
      one();
      return;
    }
    in_.expect('[', "before the elements of a dim");
    std::int64_t n = 0;
    const char* at = in_.position();
    if (!in_.accept(']')) {
      do {
        if (n == type_.dims[dim]) break;
        list(dim + 1);
        ++n;
      } while (in_.accept(','));
      if (n < type_.dims[dim] || !in_.accept(']')) {
        in_.fail_at(at, "expected " + std::to_string(type_.dims[dim]) + " elements of dim " +
                            std::to_string(dim) + " of " + mlir_type(type_));
      }
    } else if (type_.dims[dim] != 0) {
      in_.fail_at(at, "expected " + std::to_string(type_.dims[dim]) + " elements of dim " +
                          std::to_string(dim) + " of " + mlir_type(type_));
    }
  }

 private:
  template <class T>
  void put(T v) {
    std::memcpy(to_, &v, sizeof v);
    to_ += sizeof v;
  }

  void put_bits(std::uint64_t bits) {
    std::memcpy(to_, &bits, size_);  // little-endian machines only, as all of Tessera
    to_ += size_;
  }

  void number() {
    in_.skip();
    const char* p = in_.position();
    const char* end = in_.end();
    if (part_ == DType::pred) {
      if (in_.accept_word("true") || in_.accept('1')) {
        put(std::uint8_t(1));
      } else if (in_.accept_word("false") || in_.accept('0')) {
        put(std::uint8_t(0));
      } else {
        in_.fail("expected true or false");
      }
      return;
    }
    bool floating = is_floating(part_);
    bool negative = p < end && *p == '-';
    const char* digits = p + (negative ? 1 : 0);
    if (end - digits > 2 && digits[0] == '0' && digits[1] == 'x') {
      std::uint64_t bits = 0;
      auto [stop, error] = std::from_chars(digits + 2, end, bits, 16);
      if (error != std::errc() || (size_ < 8 && (bits >> (size_ * 8)) != 0) ||
          (floating && negative)) {
        in_.fail("expected the bits of a " + std::string(name(part_)));
      }
      in_.seek(stop);
      put_bits(negative ? 0 - bits : bits);
      return;
    }
    if (floating) {
      // from_chars knows inf and nan, which MLIR writes as bits.
      if (digits == end || !(is_decimal(*digits) || *digits == '.')) {
        in_.fail("expected a number");
      }
      const char* stop = p;
      std::errc error{};
      if (part_ == DType::f32) {
        float v = 0;
        auto r = std::from_chars(p, end, v);
        stop = r.ptr;
        error = r.ec;
        // Out of range: strtod's inf and zero are what a conversion gives.
        if (error == std::errc::result_out_of_range) {
          v = float(wide(p, stop));
          error = std::errc();
        }
        put(v);
      } else {
        double v = 0;
        auto r = std::from_chars(p, end, v);
        stop = r.ptr;
        error = r.ec;
        if (error == std::errc::result_out_of_range) {
          v = wide(p, stop);
          error = std::errc();
        }
        if (part_ == DType::f64) {
          put(v);
        } else if (part_ == DType::bf16) {
          put(bf16_bits_from_double(v));
        } else if (part_ == DType::f16) {
          put(f16_bits_from_double(v));
        } else {
          put(small_float_bits(part_, v));
        }
      }
      if (error != std::errc()) in_.fail("expected a number");
      in_.seek(stop);
      return;
    }
    // Integers of 64 bits, signed or not; the range is checked for narrower ones.
    std::uint64_t magnitude = 0;
    auto [stop, error] = std::from_chars(digits, end, magnitude);
    if (error != std::errc() || digits == stop) in_.fail("expected an integer that fits 64 bits");
    if (stop < end && (*stop == '.' || *stop == 'e')) in_.fail("expected an integer");
    int bits = int(size_) * 8;
    if (part_ == DType::s4 || part_ == DType::u4) bits = 4;
    if (part_ == DType::s2 || part_ == DType::u2) bits = 2;
    if (part_ == DType::s1 || part_ == DType::u1) bits = 1;
    // As MLIR: a signless type takes what its bits can hold, signed or not.
    std::uint64_t most = bits == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << bits) - 1;
    std::uint64_t least = std::uint64_t(1) << (bits - 1);
    if (magnitude > (negative ? least : most) ||
        (negative && magnitude != 0 && is_unsigned_integer(part_))) {
      in_.fail("expected an integer that fits " + std::string(name(part_)));
    }
    in_.seek(stop);
    std::uint64_t v = negative ? 0 - magnitude : magnitude;
    if (bits < 8 && is_signed_integer(part_)) {
      v = std::uint64_t(std::int64_t(v << (64 - bits)) >> (64 - bits));
    }
    put_bits(v);
  }

  static double wide(const char* p, const char* stop) {
    return std::strtod(std::string(p, stop).c_str(), nullptr);
  }

  Cursor& in_;
  const Shape& type_;
  std::byte* to_;
  DType part_;
  std::size_t size_ = 1;
};

struct SmallFormat {
  int exponent_bits, mantissa_bits, bias;
  bool infinite;       ///< the greatest exponent means inf and NaN
  bool negative_zero;  ///< has -0; else its bits are the NaN
};

SmallFormat format_of(DType t) {
  switch (t) {
    case DType::f4e2m1fn:
      return {2, 1, 1, false, true};
    case DType::f8e3m4:
      return {3, 4, 3, true, true};
    case DType::f8e4m3:
      return {4, 3, 7, true, true};
    case DType::f8e4m3b11fnuz:
      return {4, 3, 11, false, false};
    case DType::f8e4m3fn:
      return {4, 3, 7, false, true};
    case DType::f8e4m3fnuz:
      return {4, 3, 8, false, false};
    case DType::f8e5m2:
      return {5, 2, 15, true, true};
    case DType::f8e5m2fnuz:
      return {5, 2, 16, false, false};
    default:
      return {8, 0, 127, false, false};
  }
}

std::uint8_t small_float_bits(DType t, double v) {
  const SmallFormat f = format_of(t);
  const int total = f.exponent_bits + f.mantissa_bits;
  const bool signed_zero = f.negative_zero;
  if (t == DType::f8e8m0fnu) {
    // Powers of two only.
    if (!(v > 0)) return 0xff;
    int e = 0;
    double m = std::frexp(v, &e);  // v = m 2^e, m in [0.5, 1)
    if (m >= 0.75) ++e;
    return std::uint8_t(std::min(std::max(e - 1 + f.bias, 0), 254));
  }
  const int sign = std::signbit(v) ? 1 << total : 0;
  double a = std::fabs(v);
  if (a == 0) return std::uint8_t(signed_zero ? sign : 0);
  int e = 0;
  std::frexp(a, &e);
  int exponent = std::max(e - 1, 1 - f.bias);
  // In units of the last place, rounded to even.
  double scaled = std::nearbyint(std::ldexp(a, f.mantissa_bits - exponent));
  auto units = std::int64_t(std::min(scaled, 1e9));
  std::int64_t bits = units + (std::int64_t(exponent + f.bias - 1) << f.mantissa_bits);
  std::int64_t above = std::int64_t(1) << total;  // first bits beyond the exponent
  std::int64_t greatest = f.infinite ? above - (std::int64_t(1) << f.mantissa_bits) - 1 : above - 1;
  if (t == DType::f8e4m3fn) greatest = above - 2;
  if (bits > greatest) {
    if (f.infinite) return std::uint8_t(sign | (greatest + 1));
    if (t == DType::f4e2m1fn) return std::uint8_t(sign | greatest);
    if (t == DType::f8e4m3fn) return std::uint8_t(sign | 0x7f);
    return 0x80;
  }
  return std::uint8_t(sign | bits);
}

}  // namespace

Literal Reader::literal(const Shape** type) {
  in_.skip();
  const char* at = in_.position();
  if (in_.peek() == '#') {
    std::string_view whole = in_.value();
    std::string_view value = expanded(whole);
    if (value.data() == whole.data()) in_.fail_at(at, "this attribute is not defined");
    const char* back = in_.position();
    in_.seek(value.data());
    Literal out = literal(type);
    in_.seek(back);
    return out;
  }
  // A lone number: 4 : i32
  std::string_view word = in_.word_or_empty();
  bool resource = word == "dense_resource";
  if (word != "dense" && !resource) {
    if (!word.empty() && word != "true" && word != "false") {
      in_.fail_at(at,
                  "'" + std::string(word) + "' is no constant; expected dense<...> : tensor<...>");
    }
    if (!word.empty()) {
      static const Shape flag(DType::pred, {});
      *type = &flag;
      return Literal::scalar(DType::pred, word == "true");
    }
    const char* start = in_.position();
    while (in_.position() < in_.end() && (is_id_char(*in_.position()) || *in_.position() == '+')) {
      in_.seek(in_.position() + 1);
    }
    in_.expect(':', "and the type of the constant");
    *type = types_.read();
    const char* back = in_.position();
    in_.seek(start);
    Literal out = dense(*(*type));
    in_.seek(back);
    return out;
  }
  in_.expect('<', "after dense");
  in_.skip();
  const char* start = in_.position();
  // The type stands behind: find it first.
  if (in_.peek() == '"') {
    in_.raw_string("a blob");
    in_.expect('>', "after a constant");
  } else {
    const void* close = std::memchr(start, '>', std::size_t(in_.end() - start));
    if (close == nullptr) in_.fail_at(at, "the constant is not closed (expected '>')");
    in_.seek(static_cast<const char*>(close) + 1);
  }
  in_.expect(':', "and the type of the constant");
  *type = types_.read();
  const Shape& shape = **type;
  if (!shape.is_array()) in_.fail_at(at, "a constant can't be a " + mlir_type(shape));
  const char* back = in_.position();
  in_.seek(start);
  Literal out;
  if (resource) {
    std::string_view name = in_.peek() == '"' ? in_.raw_string("a name") : in_.word("a name");
    auto it = resources_.find(name);
    if (it == resources_.end()) {
      // Resources stand behind the functions.
      const char* tail = in_.position();
      std::string_view rest(tail, std::size_t(in_.end() - tail));
      std::size_t found = rest.rfind("{-#");
      if (found != std::string_view::npos && resources_.empty()) {
        in_.seek(tail + found + 3);
        resources();
        it = resources_.find(name);
      }
    }
    if (it == resources_.end()) {
      in_.fail_at(start, "resource '" + std::string(name) +
                             "' is not in the text (a dialect_resources section)");
    }
    // The first four bytes are an alignment.
    std::string_view hex = it->second;
    if (hex.size() < 10 || hex.substr(0, 2) != "0x") {
      in_.fail_at(hex.data(), "expected a blob \"0x...\" with its alignment");
    }
    hex.remove_prefix(10);
    out = blob(hex, shape, start);
  } else if (in_.peek() == '"') {
    std::string_view hex = in_.raw_string("a blob");
    if (hex.substr(0, 2) != "0x") {
      in_.not_supported_at(start, "constants of strings are not supported");
    }
    out = blob(hex.substr(2), shape, start);
  } else {
    out = dense(shape);
    in_.expect('>', "after a constant");
  }
  in_.seek(back);
  return out;
}

Literal Reader::dense(const Shape& type) {
  in_.skip();
  const char* at = in_.position();
  if (in_.peek() == '>') {
    if (type.element_count() != 0) {
      in_.fail_at(at, "expected the elements of " + mlir_type(type));
    }
    return Literal(type);
  }
  if (in_.peek() != '[') {
    Literal out(Shape(type.dtype, {}));
    Elements(in_, out.shape(), out.mutable_bytes()).one();
    return out;
  }
  // Each element takes at least two characters; so memory is bounded by the text.
  if (type.element_count() > (in_.end() - at)) {
    in_.fail_at(at, "expected the " + std::to_string(type.element_count()) + " elements of " +
                        mlir_type(type));
  }
  if (type.dims.size() > kMaxNesting) in_.fail_at(at, "lists nest too deep");
  Literal out(type);
  Elements(in_, type, out.mutable_bytes()).list(0);
  return out;
}

Literal Reader::blob(std::string_view hex, const Shape& type, const char* at) {
  if (hex.size() % 2 != 0) in_.fail_at(at, "a blob has an odd number of hexadecimal digits");
  std::size_t given = hex.size() / 2;
  std::size_t width = byte_size(type.dtype);
  auto count = std::size_t(type.element_count());
  auto byte = [&](std::size_t i) {
    int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      in_.fail_at(hex.data() + 2 * i, "expected hexadecimal digits");
    }
    return std::uint8_t(high * 16 + low);
  };
  bool packed = type.dtype == DType::pred && given == (count + 7) / 8 && given != count;
  bool splat = given == width && count != 1;
  if (!packed && !splat && given != width * count) {
    in_.fail_at(at, "a blob of " + std::to_string(given) + " bytes for " + mlir_type(type) +
                        "; expected " + std::to_string(width * count));
  }
  Literal out(splat && !packed ? Shape(type.dtype, {}) : type);
  std::byte* to = out.mutable_bytes();
  if (packed) {
    for (std::size_t i = 0; i < count; ++i) to[i] = std::byte((byte(i / 8) >> (i % 8)) & 1);
    return out;
  }
  std::size_t total = splat ? width : given;
  for (std::size_t i = 0; i < total; ++i) to[i] = std::byte(byte(i));
  if (type.dtype == DType::pred) {
    for (std::size_t i = 0; i < total; ++i) to[i] = std::byte(to[i] != std::byte(0));
  }
  return out;
}

}  // namespace tessera::text
