// SPDX-License-Identifier: Apache-2.0
// Uniform numbers: floats from bits, integers by two draws and a remainder.
#include <cmath>
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

using internal::impl_of;

namespace {

DType word_of(DType t) { return t == f64 ? u64 : t == f32 ? u32 : u16; }

/// The rounded sum and its rounding error (Knuth).
std::pair<Located, Located> two_sum(const Located& a, const Located& b) {
  const Located sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// The rounded product of doubles and its rounding error (Dekker), without overflow for numbers
/// below 2^990.
std::pair<Located, Located> two_product(const Located& a, const Located& b) {
  auto halves = [](const Located& x) {
    const Located scaled = x * 134217729.0;  // 2^27 + 1
    const Located high = scaled - (scaled - x);
    return std::pair(high, x - high);
  };
  const Located product = a * b;
  const auto [ah, al] = halves(a);
  const auto [bh, bl] = halves(b);
  return {product, ((ah * bh - product) + ah * bl + al * bh) + al * bl};
}

/// a + b in f64, rounded to odd: rounding the result again gives the correctly rounded sum.
Located sum_to_odd(const Located& a, const Located& b) {
  const auto [sum, lost] = two_sum(a, b);
  const Located word = same_bits(sum, s64);
  const Located even = (word & 1.0) == 0.0;
  const Located away = (lost > 0.0) == (sum > 0.0);
  const Located step = choose(away, word.constant(1), word.constant(-1));
  const Located inexact = (lost != 0.0) & even;
  return same_bits(choose(inexact, word + step, word), f64);
}

/// a * b + c of f32 or f64, rounded once.
Located rounded_once(const Located& a, const Located& b, const Located& c) {
  if (a.dtype() == f32) {
    // The product is exact in f64; the sum must not be rounded twice.
    return as_type(sum_to_odd(as_type(a, f64) * as_type(b, f64), as_type(c, f64)), f32);
  }
  // Boldo and Melquiond, Emulation of a FMA and correctly rounded sums.
  const auto [product, rest] = two_product(a, b);
  const auto [high, low] = two_sum(c, rest);
  const auto [sum, lost] = two_sum(product, high);
  return sum + sum_to_odd(low, lost);
}

}  // namespace

int mantissa_bits(DType t) { return t == f64 ? 52 : t == f32 ? 23 : t == f16 ? 10 : 7; }

Located fused_multiply_add(const Located& a, const Located& b, const Located& c) {
  if (a.dtype() != f32 && a.dtype() != f64) return a * b + c;
  // Bits have no derivative; the sum has.
  auto function = custom_jvp(
      [l = a.location](Array x, Array y, Array z) {
        return rounded_once({x, l}, {y, l}, {z, l}).array;
      },
      "fused_multiply_add", a.location);
  function.def_jvp(
      [l = a.location](std::tuple<Array, Array, Array> x, std::tuple<Array, Array, Array> dx) {
        const auto [p, q, r] = x;
        const auto [dp, dq, dr] = dx;
        const Located change =
            (Located{dp, l} * Located{q, l} + Located{p, l} * Located{dq, l}) + Located{dr, l};
        return std::pair(rounded_once({p, l}, {q, l}, {r, l}).array, change.array);
      });
  return a.with(function.call_at(a.location, a.array, b.array, c.array));
}

void check_random_float(const std::string& op, DType dtype, Location location) {
  if (dtype == f16 || dtype == bf16 || dtype == f32 || dtype == f64) return;
  throw DTypeError(op + " as " + std::string(name(dtype)) + "; valid are f16, bf16, f32 and f64",
                   location);
}

namespace {

int drawn_width(DType dtype) {
  return mantissa_bits(dtype) < 8 ? 8 : int(byte_size(word_of(dtype))) * 8;
}

/// Floats in [0, 1) of which random bits are the mantissas.
Located unit_floats(const Located& bits, DType dtype) {
  const DType word = word_of(dtype);
  const Located drawn = as_type(bits, word);
  const Literal one = dtype == f64 ? Literal::scalar(u64, std::uint64_t(0x3ff0000000000000))
                                   : Literal::scalar(word, dtype == f32   ? 0x3f800000
                                                           : dtype == f16 ? 0x3c00
                                                                          : 0x3f80);
  const int unused = drawn_width(dtype) - mantissa_bits(dtype);
  const Located mantissas = shifted_right(drawn, std::uint32_t(unused));
  return same_bits(mantissas | drawn.with(program_constant(one)), dtype) - 1.0;
}

}  // namespace

Located unit_uniform(const KeyWords& key, const Dims& dims, DType dtype) {
  return unit_floats(random_bits(key, dims, drawn_width(dtype)), dtype);
}

Located unit_uniform_each(const KeyWords& keys, DType dtype) {
  return unit_floats(random_bits_each(keys, drawn_width(dtype)), dtype);
}

Located uniform_between(const KeyWords& key, const Dims& dims, const Located& low,
                        const Located& high) {
  const DType t = low.dtype();
  const Located unit = unit_uniform(key, dims, t);
  const Literal* known_low = constant_value(low.array);
  const Literal* known_high = constant_value(high.array);
  bool exact = false;  // whether the product with the span is exact
  if (known_low && known_high) {
    const double a = to_scalar<double>(*known_low), b = to_scalar<double>(*known_high);
    if (a == 0 && !std::signbit(a) && b == 1) return unit;
    const double span = to_scalar<double>(Literal::scalar(t, b - a));
    int exponent = 0;
    exact = span == 0 || std::abs(std::frexp(span, &exponent)) == 0.5;
  }
  const Located span = high - low;
  const Located stretched = exact ? unit * span + low : fused_multiply_add(unit, span, low);
  return unit.with(maximum(low, stretched));
}

namespace {

/// `x rem 0` is x, as in HLO.
Located rem(const Located& a, const Located& b) { return a.with(fmod(a, b)); }

/// Bounds of a 32- or 64-bit type, scalars or arrays: low, and high - low as unsigned.
struct IntegerRange {
  Located low, span;
};

__extension__ using Int128 = __int128;

Int128 known_integer(const Literal& x) {
  return x.dtype() == u64 ? Int128(to_scalar<std::uint64_t>(x))
                          : Int128(to_scalar<std::int64_t>(x));
}

int width_of(DType t) { return int(byte_size(t)) * 8; }
Int128 least(DType t) {
  return is_unsigned_integer(t) ? Int128(0) : -(Int128(1) << (width_of(t) - 1));
}
Int128 greatest(DType t) {
  return (Int128(1) << (width_of(t) - (is_unsigned_integer(t) ? 0 : 1))) - 1;
}

IntegerRange known_range(Int128 low, Int128 high, DType out, DType work, Location location) {
  auto clamp = [](Int128 v, Int128 a, Int128 b) { return v < a ? a : v > b ? b : v; };
  if (byte_size(out) < 4) {
    low = clamp(low, least(out), greatest(out));
    high = clamp(high, least(out), greatest(out) + 1);
  }
  const bool beyond = high > greatest(work);
  low = clamp(low, least(work), greatest(work));
  high = clamp(high, least(work), greatest(work));
  Int128 span = high > low ? high - low : 1;
  if (beyond && high > low) ++span;
  const DType word = byte_size(work) == 8 ? u64 : u32;
  // Plain scalars are parameters: the program doesn't depend on the bounds.
  const Literal low_value = is_unsigned_integer(work) ? Literal::scalar(work, std::uint64_t(low))
                                                      : Literal::scalar(work, std::int64_t(low));
  return {{constant(low_value), location},
          {constant(Literal::scalar(word, std::uint64_t(span))), location}};
}

IntegerRange computed_range(Located low, Located high, DType out, DType work) {
  auto bound = [&](Int128 v) {
    return low.with(program_constant(Literal::scalar(s64, std::int64_t(v))));
  };
  auto clamp = [&](const Located& x, Int128 a, Int128 b) {
    return x.with(minimum(x.with(maximum(x, bound(a))), bound(b)));
  };
  low = as_type(low, s64);
  high = as_type(high, s64);
  const Int128 top = std::numeric_limits<std::int64_t>::max();
  auto most = [&](DType t) { return std::min(greatest(t), top); };
  if (byte_size(out) < 4) {
    low = clamp(low, least(out), greatest(out));
    high = clamp(high, least(out), greatest(out) + 1);
  }
  const Located beyond = high > bound(most(work));
  low = clamp(low, least(work), most(work));
  high = clamp(high, least(work), most(work));
  const DType word = byte_size(work) == 8 ? u64 : u32;
  const Located more = high > low;
  const Located span = as_type(high - low, word);
  const Located wider = as_type(more & beyond, word);
  return {as_type(low, work), choose(more, span + wider, span.constant(1))};
}

}  // namespace

Located integers_between(const KeyWords& key, const Dims& dims, const Array& low, const Array& high,
                         DType dtype) {
  const Location l = key.first.location;
  const DType work = byte_size(dtype) < 4 ? s32 : dtype;
  const Literal *known_low = constant_value(low), *known_high = constant_value(high);
  const IntegerRange range =
      known_low && known_high
          ? known_range(known_integer(*known_low), known_integer(*known_high), dtype, work, l)
          : computed_range({low, l}, {high, l}, dtype, work);
  const int width = width_of(work);
  const auto [upper_key, lower_key] = split_in_two(key);
  const Located upper = random_bits(upper_key, dims, width);
  const Located lower = random_bits(lower_key, dims, width);
  const Located& span = range.span;
  Located mult = rem(span.constant(std::ldexp(1.0, width / 2)), span);
  mult = rem(mult * mult, span);
  const Located offset = rem(rem(upper, span) * mult + rem(lower, span), span);
  return as_type(range.low + as_type(offset, work), dtype);
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::composed;
using frontend::Located;
using internal::impl_of;

namespace {

void check_bounds(const std::string& op, const Array& low, const Array& high, const Dims& dims,
                  Location location) {
  for (const Array* bound : {&low, &high}) {
    const Dims& have = impl_of(*bound, location).shape.dims;
    if (frontend::broadcast_shapes(op, have, dims, location) != dims) {
      throw ShapeError(op + " of shape " + to_string(dims) + ": a bound is " +
                           bound->type_string() + " and doesn't broadcast to it",
                       location);
    }
  }
}

}  // namespace

Array uniform(Operand key, Shape shape, DType dtype, Operand minval, Operand maxval) {
  frontend::check_key("random::uniform", key);
  frontend::check_random_shape("random::uniform", shape, key.location);
  frontend::check_random_float("random::uniform", dtype, key.location);
  check_bounds("random::uniform", minval.array, maxval.array, shape, key.location);
  return composed("random_uniform", key.location, [&] {
    const Location l = key.location;
    return frontend::uniform_between(frontend::key_words(key), shape,
                                     frontend::as_type({minval.array, l}, dtype),
                                     frontend::as_type({maxval.array, l}, dtype))
        .array;
  });
}

Array randint(Operand key, Shape shape, Operand minval, Operand maxval, DType dtype) {
  frontend::check_key("random::randint", key);
  frontend::check_random_shape("random::randint", shape, key.location);
  check_bounds("random::randint", minval.array, maxval.array, shape, key.location);
  if (!is_integer(dtype) || (byte_size(dtype) == 1 && dtype != u8 && dtype != s8)) {
    throw DTypeError("random::randint as " + std::string(name(dtype)) +
                         "; valid are the integers of 8 to 64 bits",
                     key.location);
  }
  for (const Operand* bound : {&minval, &maxval}) {
    const DType t = bound->array.dtype();
    if (!is_integer(t) || (t == u64 && !frontend::constant_value(bound->array))) {
      throw DTypeError("random::randint: a bound is " + bound->array.type_string() +
                           "; bounds are integers (arrays: not u64)",
                       key.location);
    }
  }
  return composed("random_randint", key.location, [&] {
    return frontend::integers_between(frontend::key_words(key), shape, minval.array, maxval.array,
                                      dtype)
        .array;
  });
}

}  // namespace tessera::random
