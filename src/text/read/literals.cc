// SPDX-License-Identifier: Apache-2.0
// dense<...>: numbers, nested lists, blobs in hexadecimal.
#include <charconv>
#include <cstring>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/base/files/plain_numbers.h"
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

// Reads the elements of one literal, row-major.
class Elements {
 public:
  Elements(Cursor& in, const Shape& type, std::byte* to) : in_(in), type_(type), to_(to) {
    part_ = is_complex(type.dtype) ? real_type(type.dtype) : type.dtype;
    size_ = byte_size(part_);
  }

  void element() {
    if (is_complex(type_.dtype)) {
      in_.expect('(', "before the parts of a complex number");
      scalar();
      in_.expect(',', "between the parts of a complex number");
      scalar();
      in_.expect(')', "after the parts of a complex number");
    } else {
      scalar();
    }
  }

  void nested_list(std::size_t dim) {
    if (dim == type_.dims.size()) {
      element();
      return;
    }
    in_.expect('[', "before the elements of a dim");
    std::int64_t n = 0;
    const char* at = in_.position();
    if (!in_.accept(']')) {
      do {
        if (n == type_.dims[dim]) break;
        nested_list(dim + 1);
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

  // A number, or a part of a complex one.
  void scalar() {
    in_.skip();
    if (part_ == DType::pred) return truth_value();
    const char* p = in_.position();
    const bool negative = p < in_.end() && *p == '-';
    const char* digits = p + (negative ? 1 : 0);
    if (in_.end() - digits > 2 && digits[0] == '0' && digits[1] == 'x') {
      bit_pattern(digits + 2, negative);
    } else if (!is_floating(part_)) {
      integer(digits, negative);
    } else if (digits == in_.end() || !(is_decimal(*digits) || *digits == '.')) {
      // from_chars knows inf and nan, which MLIR writes as bits.
      in_.fail("expected a number");
    } else {
      floating();
    }
  }

  void truth_value() {
    if (in_.accept_word("true") || in_.accept('1')) {
      put(std::uint8_t(1));
    } else if (in_.accept_word("false") || in_.accept('0')) {
      put(std::uint8_t(0));
    } else {
      in_.fail("expected true or false");
    }
  }

  // Bits of the type itself, which may be less than its byte has.
  int width() const {
    if (is_small_float(part_)) return small_float_width(part_);
    if (part_ == DType::s4 || part_ == DType::u4) return 4;
    if (part_ == DType::s2 || part_ == DType::u2) return 2;
    if (part_ == DType::s1 || part_ == DType::u1) return 1;
    return int(size_) * 8;
  }

  void bit_pattern(const char* digits, bool negative) {
    std::uint64_t bits = 0;
    auto [stop, error] = std::from_chars(digits, in_.end(), bits, 16);
    const int all = width();
    if (error != std::errc() || (all < 64 && (bits >> all) != 0) ||
        (is_floating(part_) && negative)) {
      in_.fail("expected the bits of a " + std::string(name(part_)) +
               (all < 8 ? ", of which there are " + std::to_string(all) : ""));
    }
    in_.seek(stop);
    put_whole(negative ? 0 - bits : bits);
  }

  // Signed numbers fill their byte with the sign.
  void put_whole(std::uint64_t v) {
    const int bits = width();
    if (bits < 8 && is_signed_integer(part_)) {
      v = std::uint64_t(std::int64_t(v << (64 - bits)) >> (64 - bits));
    } else if (bits < 8) {
      v &= (std::uint64_t(1) << bits) - 1;
    }
    put_bits(v);
  }

  template <class T>
  T real() {
    const char* p = in_.position();
    T v = 0;
    auto [stop, error] = std::from_chars(p, in_.end(), v);
    if (error == std::errc::result_out_of_range) {
      // The inf and zero of it are what a conversion gives.
      v = T(read_double(std::string(p, stop).c_str(), nullptr));
    } else if (error != std::errc()) {
      in_.fail("expected a number");
    }
    in_.seek(stop);
    return v;
  }

  void floating() {
    if (part_ == DType::f32) return put(real<float>());
    const double v = real<double>();
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

  // Integers of 64 bits, signed or not; the range is checked for narrower ones.
  void integer(const char* digits, bool negative) {
    std::uint64_t magnitude = 0;
    auto [stop, error] = std::from_chars(digits, in_.end(), magnitude);
    if (error != std::errc() || digits == stop) in_.fail("expected an integer that fits 64 bits");
    if (stop < in_.end() && (*stop == '.' || *stop == 'e')) in_.fail("expected an integer");
    const int bits = width();
    // As MLIR: a signless type takes what its bits can hold, signed or not.
    std::uint64_t most = bits == 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << bits) - 1;
    std::uint64_t least = std::uint64_t(1) << (bits - 1);
    if (magnitude > (negative ? least : most) ||
        (negative && magnitude != 0 && is_unsigned_integer(part_))) {
      in_.fail("expected an integer that fits " + std::string(name(part_)));
    }
    in_.seek(stop);
    put_whole(negative ? 0 - magnitude : magnitude);
  }

  Cursor& in_;
  const Shape& type_;
  std::byte* to_;
  DType part_;
  std::size_t size_ = 1;
};

}  // namespace

Literal InstructionBuilder::literal(const Shape** type) {
  in_.skip();
  const char* at = in_.position();
  if (in_.peek() == '#') return aliased_literal(type);
  const std::string_view word = in_.word_or_empty();
  const bool resource = word == "dense_resource";
  if (word != "dense" && !resource) return bare_literal(word, at, type);
  in_.expect('<', "after dense");
  in_.skip();
  const char* start = in_.position();
  // The type stands behind: find it first.
  *type = type_behind_elements(at);
  const Shape& shape = **type;
  if (!shape.is_array()) in_.fail_at(at, "a constant can't be a " + mlir_type(shape));
  const char* back = in_.position();
  in_.seek(start);
  Literal out;
  if (resource) {
    out = resource_literal(shape);
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

Literal InstructionBuilder::aliased_literal(const Shape** type) {
  const std::string_view alias = in_.value();
  const std::string_view value = expanded(alias);
  if (value.data() == alias.data()) in_.fail_at(alias.data(), "this attribute is not defined");
  Literal out;
  at_value(value, [&] { out = literal(type); });
  return out;
}

// `4 : i32`, `true`. `word`: what was read already, at `at`.
Literal InstructionBuilder::bare_literal(std::string_view word, const char* at,
                                         const Shape** type) {
  if (word == "true" || word == "false") {
    static const Shape flag(DType::pred, {});
    *type = &flag;
    return Literal::scalar(DType::pred, word == "true");
  }
  if (!word.empty()) {
    in_.fail_at(at,
                "'" + std::string(word) + "' is no constant; expected dense<...> : tensor<...>");
  }
  const char* start = in_.position();
  while (in_.position() < in_.end() && (is_id_char(*in_.position()) || *in_.position() == '+')) {
    in_.seek(in_.position() + 1);
  }
  in_.expect(':', "and the type of the constant");
  *type = types_.read();
  Literal out;
  at_value({start, 0}, [&] { out = dense(**type); });
  return out;
}

// Passes over the elements of the constant that begins at `constant`.
const Shape* InstructionBuilder::type_behind_elements(const char* constant) {
  if (in_.peek() == '"') {
    in_.raw_string("a blob");
    in_.expect('>', "after a constant");
  } else {
    const char* start = in_.position();
    const void* close = std::memchr(start, '>', std::size_t(in_.end() - start));
    if (close == nullptr) in_.fail_at(constant, "the constant is not closed (expected '>')");
    in_.seek(static_cast<const char*>(close) + 1);
  }
  in_.expect(':', "and the type of the constant");
  return types_.read();
}

Literal InstructionBuilder::resource_literal(const Shape& type) {
  const char* start = in_.position();
  return blob(resource_digits(start), type, start);
}

// The hexadecimal digits of the resource whose name comes next.
std::string_view InstructionBuilder::resource_digits(const char* start) {
  std::string_view name = in_.peek() == '"' ? in_.raw_string("a name") : in_.word("a name");
  if (resources_.empty()) {
    // Resources stand behind the functions.
    const char* tail = in_.position();
    std::string_view rest(tail, std::size_t(in_.end() - tail));
    if (std::size_t found = rest.rfind("{-#"); found != std::string_view::npos) {
      in_.seek(tail + found + 3);
      resources();
    }
  }
  auto it = resources_.find(name);
  if (it == resources_.end()) {
    in_.fail_at(start, "resource '" + std::string(name) +
                           "' is not in the text (a dialect_resources section)");
  }
  // The first four bytes are an alignment.
  std::string_view digits = it->second;
  if (digits.size() < 10 || digits.substr(0, 2) != "0x") {
    in_.fail_at(digits.data(), "expected a blob \"0x...\" with its alignment");
  }
  digits.remove_prefix(10);
  return digits;
}

Literal InstructionBuilder::dense(const Shape& type) {
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
    Elements(in_, out.shape(), out.mutable_bytes()).element();
    return out;
  }
  // Each element takes at least two characters; so memory is bounded by the text.
  if (type.element_count() > (in_.end() - at)) {
    in_.fail_at(at, "expected the " + std::to_string(type.element_count()) + " elements of " +
                        mlir_type(type));
  }
  if (type.dims.size() > kMaxNesting) in_.fail_at(at, "lists nest too deep");
  Literal out(type);
  Elements(in_, type, out.mutable_bytes()).nested_list(0);
  return out;
}

Literal InstructionBuilder::blob(std::string_view hex, const Shape& type, const char* at) {
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
  const int bits = is_small_float(type.dtype) ? small_float_width(type.dtype) : 8;
  for (std::size_t i = 0; i < total && bits < 8; ++i) {
    if (byte(i) >> bits != 0) {
      in_.fail_at(hex.data() + 2 * i, "expected elements of " + std::to_string(bits) +
                                          " bits, one a byte, for " + mlir_type(type));
    }
  }
  if (type.dtype == DType::pred) {
    for (std::size_t i = 0; i < total; ++i) to[i] = std::byte(to[i] != std::byte(0));
  }
  return out;
}

}  // namespace tessera::text
