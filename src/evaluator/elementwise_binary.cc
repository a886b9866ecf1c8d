// SPDX-License-Identifier: Apache-2.0
// Evaluates binary elementwise ops, compare, select and clamp.
#include <cmath>
#include <limits>

#include "src/evaluator/elementwise.h"

namespace tessera::evaluator {

using ir::Opcode;

void no_such_op(Opcode op, DType t) {
  throw DTypeError(std::string(ir::name(op)) + " is not defined for elements of type " +
                   std::string(name(t)));
}

namespace {

double maximum(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? b : a;  // of two zeros the positive one
  return a > b ? a : b;
}

double minimum(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

std::uint64_t mask_of(int width) {
  return width >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
}

std::int64_t sign_extended(std::uint64_t v, int width) {
  if (width >= 64) return std::int64_t(v);
  const std::uint64_t sign = std::uint64_t(1) << (width - 1);
  return std::int64_t(((v & mask_of(width)) ^ sign) - sign);
}

std::uint64_t integer_divide(std::uint64_t a, std::uint64_t b, bool is_signed) {
  if (b == 0) return ~std::uint64_t(0);
  if (!is_signed) return a / b;
  if (b == ~std::uint64_t(0)) return std::uint64_t(0) - a;  // by -1: wraps for the least number
  return std::uint64_t(std::int64_t(a) / std::int64_t(b));
}

std::uint64_t integer_remainder(std::uint64_t a, std::uint64_t b, bool is_signed) {
  if (b == 0) return a;
  if (!is_signed) return a % b;
  if (b == ~std::uint64_t(0)) return 0;
  return std::uint64_t(std::int64_t(a) % std::int64_t(b));
}

std::uint64_t integer_power(std::uint64_t base, std::uint64_t exponent, bool is_signed) {
  if (is_signed && std::int64_t(exponent) < 0) {
    if (base == 1) return 1;
    if (base == ~std::uint64_t(0)) return (exponent & 1) != 0 ? base : 1;
    return 0;
  }
  std::uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b, int width, bool is_signed) {
  if (is_signed) {
    return std::uint64_t((static_cast<__int128>(std::int64_t(a)) * std::int64_t(b)) >> width);
  }
  return std::uint64_t((static_cast<unsigned __int128>(a) * b) >> width);
}

/// One loop per opcode: the switch stands outside.
template <Opcode op, class W>
void combine_loop(const W* a, const W* b, W* out, std::int64_t n, int width, bool is_signed) {
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<W, std::uint64_t>) {
      out[i] = combine(op, a[i], b[i], width, is_signed);
    } else {
      out[i] = combine(op, a[i], b[i]);
    }
  }
}

template <class W>
void combine_block(Opcode op, const W* a, const W* b, W* out, std::int64_t n, int width,
                   bool is_signed) {
  switch (op) {
    case Opcode::add:
      return combine_loop<Opcode::add>(a, b, out, n, width, is_signed);
    case Opcode::subtract:
      return combine_loop<Opcode::subtract>(a, b, out, n, width, is_signed);
    case Opcode::multiply:
      return combine_loop<Opcode::multiply>(a, b, out, n, width, is_signed);
    case Opcode::divide:
      return combine_loop<Opcode::divide>(a, b, out, n, width, is_signed);
    default:
      for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<W, std::uint64_t>) {
          out[i] = combine(op, a[i], b[i], width, is_signed);
        } else {
          out[i] = combine(op, a[i], b[i]);
        }
      }
  }
}

}  // namespace

double combine(Opcode op, double a, double b) {
  switch (op) {
    case Opcode::add:
      return a + b;
    case Opcode::subtract:
      return a - b;
    case Opcode::multiply:
      return a * b;
    case Opcode::divide:
      return a / b;
    case Opcode::remainder:
      return std::fmod(a, b);
    case Opcode::maximum:
      return maximum(a, b);
    case Opcode::minimum:
      return minimum(a, b);
    case Opcode::power:
      return std::pow(a, b);
    case Opcode::atan2:
      return std::atan2(a, b);
    default:
      no_such_op(op, DType::f64);
  }
}

std::uint64_t combine(Opcode op, std::uint64_t a, std::uint64_t b, int width, bool is_signed) {
  switch (op) {
    case Opcode::add:
      return width == 1 ? a | b : a + b;  // pred adds as "or"
    case Opcode::subtract:
      return width == 1 ? a ^ b : a - b;
    case Opcode::multiply:
      return a * b;
    case Opcode::divide:
      return integer_divide(a, b, is_signed);
    case Opcode::remainder:
      return integer_remainder(a, b, is_signed);
    case Opcode::maximum:
      return (is_signed ? std::int64_t(a) < std::int64_t(b) : a < b) ? b : a;
    case Opcode::minimum:
      return (is_signed ? std::int64_t(b) < std::int64_t(a) : b < a) ? b : a;
    case Opcode::power:
      return integer_power(a, b, is_signed);
    case Opcode::and_:
      return a & b;
    case Opcode::or_:
      return a | b;
    case Opcode::xor_:
      return a ^ b;
    case Opcode::mulhi:
      return multiply_high(a, b, width, is_signed);
    case Opcode::shift_left:
      return b >= std::uint64_t(width) ? 0 : a << b;
    case Opcode::shift_right_logical:
      return b >= std::uint64_t(width) ? 0 : (a & mask_of(width)) >> b;
    case Opcode::shift_right_arithmetic:
      return std::uint64_t(sign_extended(a, width) >>
                           (b >= std::uint64_t(width) ? width - 1 : int(b)));
    default:
      no_such_op(op, is_signed ? DType::s64 : DType::u64);
  }
}

Complex combine(Opcode op, const Complex& a, const Complex& b) {
  switch (op) {
    case Opcode::add:
      return a + b;
    case Opcode::subtract:
      return a - b;
    case Opcode::multiply:
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    case Opcode::divide:
      return a / b;
    case Opcode::power:
      if (a == Complex(0)) return b == Complex(0) ? Complex(1) : Complex(0);
      return std::pow(a, b);
    case Opcode::atan2: {
      // As XLA has it: the angle of b + i a.
      const Complex i(0, 1);
      return -i * std::log((b + i * a) / std::sqrt(b * b + a * a));
    }
    default:
      no_such_op(op, DType::c128);
  }
}

void apply_binary(Opcode op, DType t, const std::byte* a, const std::byte* b, std::byte* result,
                  std::int64_t n) {
  const std::int64_t size = std::int64_t(byte_size(t));
  const int width = bit_width(t);
  const bool is_signed = is_signed_integer(t);
  dispatch_domain(t, [&](auto tag) {
    using W = typename decltype(tag)::type;
    W x[kBlock], y[kBlock];
    for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
      load(t, a + begin * size, count, x);
      load(t, b + begin * size, count, y);
      combine_block(op, x, y, x, count, width, is_signed);
      store(t, x, count, result + begin * size);
    });
  });
}

namespace {

template <class W, class K>
void compare_keys(ir::Direction d, const W* a, const W* b, std::byte* out, std::int64_t n, K key) {
  using ir::Direction;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = key(a[i]), y = key(b[i]);
    bool r = false;
    switch (d) {
      case Direction::eq:
        r = x == y;
        break;
      case Direction::ne:
        r = x != y;
        break;
      case Direction::lt:
        r = x < y;
        break;
      case Direction::le:
        r = x <= y;
        break;
      case Direction::gt:
        r = x > y;
        break;
      case Direction::ge:
        r = x >= y;
        break;
    }
    out[i] = std::byte(r ? 1 : 0);
  }
}

/// Order of the bits of a float: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
void compare_total(ir::Direction d, DType t, const std::byte* a, const std::byte* b,
                   std::byte* result, std::int64_t n) {
  const std::size_t size = byte_size(t);
  const std::int64_t step = std::int64_t(size);
  const int width = bit_width(t);
  std::uint64_t x[kBlock], y[kBlock];
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    load_bits(size, a + begin * step, count, x);
    load_bits(size, b + begin * step, count, y);
    compare_keys(d, x, y, result + begin, count, [&](std::uint64_t v) {
      const std::int64_t s = sign_extended(v, width);
      return s >= 0 ? s : s ^ std::numeric_limits<std::int64_t>::max();
    });
  });
}

}  // namespace

void apply_compare(const ir::CompareAttrs& attrs, DType t, const std::byte* a, const std::byte* b,
                   std::byte* result, std::int64_t n) {
  using ir::ComparisonType;
  const ir::Direction d = attrs.direction;
  if (attrs.type == ComparisonType::total_order && is_floating(t)) {
    return compare_total(d, t, a, b, result, n);
  }
  const std::int64_t step = std::int64_t(byte_size(t));
  bool is_signed = is_signed_integer(t);
  if (attrs.type == ComparisonType::signed_) is_signed = true;
  if (attrs.type == ComparisonType::unsigned_) is_signed = false;
  if (is_complex(t) && d != ir::Direction::eq && d != ir::Direction::ne) {
    throw DTypeError("compare of complex numbers knows only EQ and NE");
  }
  const std::uint64_t mask = mask_of(bit_width(t));
  dispatch_domain(t, [&](auto tag) {
    using W = typename decltype(tag)::type;
    W x[kBlock], y[kBlock];
    for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
      load(t, a + begin * step, count, x);
      load(t, b + begin * step, count, y);
      std::byte* out = result + begin;
      if constexpr (std::is_same_v<W, double>) {
        compare_keys(d, x, y, out, count, [](double v) { return v; });
      } else if constexpr (std::is_same_v<W, Complex>) {
        for (std::int64_t i = 0; i < count; ++i) {
          out[i] = std::byte((x[i] == y[i]) == (d == ir::Direction::eq) ? 1 : 0);
        }
      } else if (is_signed) {
        compare_keys(d, x, y, out, count, [](std::uint64_t v) { return std::int64_t(v); });
      } else {
        compare_keys(d, x, y, out, count, [&](std::uint64_t v) { return v & mask; });
      }
    });
  });
}

void apply_clamp(DType t, const std::byte* low, const std::byte* x, const std::byte* high,
                 std::byte* result, std::int64_t n) {
  const std::int64_t size = std::int64_t(byte_size(t));
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    alignas(16) std::byte raised[kBlock * 16];
    apply_binary(Opcode::maximum, t, x + begin * size, low + begin * size, raised, count);
    apply_binary(Opcode::minimum, t, raised, high + begin * size, result + begin * size, count);
  });
}

namespace {

template <class T>
void select_typed(const std::byte* pred, const std::byte* on_true, const std::byte* on_false,
                  std::byte* result, std::int64_t n) {
  const T *x = reinterpret_cast<const T*>(on_true), *y = reinterpret_cast<const T*>(on_false);
  T* out = reinterpret_cast<T*>(result);
  for (std::int64_t i = 0; i < n; ++i) out[i] = pred[i] != std::byte(0) ? x[i] : y[i];
}

}  // namespace

void apply_select(DType t, const std::byte* pred, const std::byte* on_true,
                  const std::byte* on_false, std::byte* result, std::int64_t n) {
  switch (byte_size(t)) {
    case 1:
      return select_typed<std::uint8_t>(pred, on_true, on_false, result, n);
    case 2:
      return select_typed<std::uint16_t>(pred, on_true, on_false, result, n);
    case 4:
      return select_typed<std::uint32_t>(pred, on_true, on_false, result, n);
    case 8:
      return select_typed<std::uint64_t>(pred, on_true, on_false, result, n);
    default:
      return select_typed<Bytes16>(pred, on_true, on_false, result, n);
  }
}

}  // namespace tessera::evaluator
