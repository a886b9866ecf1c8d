// SPDX-License-Identifier: Apache-2.0
// Distributions derived from uniform numbers.
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/custom_derivative.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

double step_below_one(DType t) { return std::ldexp(1.0, -mantissa_bits(t) - 1); }

double least_normal(DType t) { return std::ldexp(1.0, t == f64 ? -1022 : t == f16 ? -14 : -126); }

Located normal_of(const Located& unit) {
  const Located low = unit.constant(-1 + step_below_one(unit.dtype()));
  // 1 - low rounds to 2, so the product is exact.
  const Located u = low.with(maximum(unit * 2.0 + low, low));
  return u.with(erf_inv(u)) * std::numbers::sqrt2;
}

Located normal_numbers(const KeyWords& key, const Dims& dims, DType dtype) {
  if (is_complex(dtype)) {
    const DType part = real_type(dtype);
    const auto [real_key, imag_key] = split_in_two(key);
    const Located re = normal_numbers(real_key, dims, part);
    const Located im = normal_numbers(imag_key, dims, part);
    // Real and imaginary part are divided separately: a complex division would round differently.
    const Located root = re.constant(std::numbers::sqrt2);
    return re.with(complex(re / root, im / root));
  }
  return normal_of(unit_uniform(key, dims, dtype));
}

Located exponential_numbers(const KeyWords& key, const Dims& dims, DType dtype) {
  const Located u = unit_uniform(key, dims, dtype);
  return -u.with(log1p(-u));
}

namespace {

/// The first and second half along dim 0, of size 2.
std::pair<Located, Located> halves(const Located& both, const Dims& dims) {
  auto half = [&](std::int64_t i) {
    return both.with(
        reshaped(sliced_dim(both.array, 0, i, i + 1, both.location), dims, both.location));
  };
  return {half(0), half(1)};
}

Dims twice(Dims dims) {
  dims.insert(dims.begin(), 2);
  return dims;
}

/// The f32 number of which two words are the first 64 binary places, rounded down.
Located fraction_of_words(const Located& high, const Located& low) {
  auto zeros = [](const Located& x) {
    return x.with(unary(ir::Opcode::count_leading_zeros, x.array, x.location, "random_gumbel"));
  };
  auto left = [](const Located& x, const Located& n) { return x.with(left_shift(x, n)); };
  auto right = [](const Located& x, const Located& n) { return x.with(right_shift(x, n)); };
  const Located lead = zeros(high), more = zeros(low);
  const Located none = lead == 32.0;
  const Located rest = choose(none, left(low, more), right(low, 32.0 - lead));
  const Located mantissa = shifted_right(left(high, lead) | rest, 8) & double(0x7fffff);
  const Located places = choose(none, more + 32.0, lead);
  const Located exponent = shifted_left(126.0 - places, 23) & double(0x3fc00000);
  return same_bits(exponent | mantissa, f32);
}

/// Gumbel numbers from uniform ones that have all their leading bits at both ends.
Located gumbel_of_words(const Located& high, const Located& low) {
  auto inverted = [](const Located& x) { return x.with(bitwise_not(x)); };
  // 1 - x in fixed point.
  const Located other_low = inverted(low) + 1.0;
  const Located other_high = inverted(high) + as_type(other_low == 0.0, u32);
  const Located small = high < double(0x80000000u);
  const Located x =
      fraction_of_words(choose(small, high, other_high), choose(small, low, other_low));
  const Located near_zero = -x.with(log(-x.with(log1p(-x))));
  return choose(small, near_zero, -x.with(log(-x.with(log(x)))));
}

}  // namespace

Located gumbel_numbers(const KeyWords& key, const Dims& dims, DType dtype, random::Mode mode) {
  if (mode == random::Mode::highest && dtype == f32) {
    const auto [high, low] = halves(random_bits(key, twice(dims), 32), dims);
    return gumbel_of_words(high, low);
  }
  if (mode != random::Mode::low) {
    const auto [high, low] = halves(unit_uniform(key, twice(dims), dtype), dims);
    const Located fine = high + low * std::ldexp(1.0, -mantissa_bits(dtype)) + least_normal(dtype);
    const Located x = choose(high >= 0.5, high, fine);
    return -x.with(log(-x.with(log1p(-x))));
  }
  const Located unit = unit_uniform(key, dims, dtype);
  const Located tiny = unit.constant(least_normal(dtype));
  const Located u = unit.with(maximum(unit + tiny, tiny));
  return -u.with(log(-u.with(log(u))));
}

Located random_signs(const KeyWords& key, const Dims& dims, DType dtype) {
  const Located one = as_type(unit_uniform(key, dims, f32) < 0.5, dtype);
  return one * 2.0 - 1.0;
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::composed;
using frontend::Located;

Array normal(Operand key, Shape shape, DType dtype) {
  if (!is_complex(dtype)) {
    return frontend::drawn("normal", key, shape, dtype, [&](const frontend::KeyWords& words) {
      return frontend::normal_numbers(words, shape, dtype);
    });
  }
  return frontend::drawn("normal", key, shape, real_type(dtype),
                         [&](const frontend::KeyWords& words) {
                           return frontend::normal_numbers(words, shape, dtype);
                         });
}

Array truncated_normal(Operand key, Operand lower, Operand upper, OptionalShape shape,
                       DType dtype) {
  const Dims dims = frontend::parameter_shape("random::truncated_normal", shape,
                                              {{"lower", &lower}, {"upper", &upper}}, key.location);
  return frontend::drawn(
      "truncated_normal", key, dims, dtype, [&](const frontend::KeyWords& words) {
        const Located low = frontend::as_type({lower.array, key.location}, dtype);
        const Located high = frontend::as_type({upper.array, key.location}, dtype);
        const Located root = low.constant(std::numbers::sqrt2);
        const Located u = frontend::uniform_between(words, dims, low.with(erf(low / root)),
                                                    low.with(erf(high / root)));
        const Located x = u.with(erf_inv(u)) * root;
        // Rounding doesn't take numbers out of the open interval.
        const double infinity = std::numeric_limits<double>::infinity();
        const Located from = low.with(stop_gradient(Operand(low)));
        const Located to = low.with(stop_gradient(Operand(high)));
        const Located least = low.with(nextafter(from, low.constant(infinity)));
        const Located most = low.with(nextafter(to, low.constant(-infinity)));
        return x.with(minimum(x.with(maximum(x, least)), most));
      });
}

Array bernoulli(Operand key, Operand p, OptionalShape shape, Mode mode) {
  const Dims dims =
      frontend::parameter_shape("random::bernoulli", shape, {{"p", &p}}, key.location);
  const DType t = frontend::to_inexact(p.array.dtype());
  return frontend::drawn("bernoulli", key, dims, t, [&](const frontend::KeyWords& words) {
    const Located probability = frontend::as_type({p.array, key.location}, t);
    if (mode == Mode::low) return frontend::unit_uniform(words, dims, t) < probability;
    const auto [high, low] =
        frontend::halves(frontend::unit_uniform(words, frontend::twice(dims), t), dims);
    const double step = std::ldexp(1.0, -frontend::mantissa_bits(t));
    return low * step < probability - high;
  });
}

Array exponential(Operand key, Shape shape, DType dtype) {
  return frontend::drawn("exponential", key, shape, dtype, [&](const frontend::KeyWords& words) {
    return frontend::exponential_numbers(words, shape, dtype);
  });
}

Array gumbel(Operand key, Shape shape, DType dtype, Mode mode) {
  return frontend::drawn("gumbel", key, shape, dtype, [&](const frontend::KeyWords& words) {
    return frontend::gumbel_numbers(words, shape, dtype, mode);
  });
}

Array laplace(Operand key, Shape shape, DType dtype) {
  return frontend::drawn("laplace", key, shape, dtype, [&](const frontend::KeyWords& words) {
    const Located unit = frontend::unit_uniform(words, shape, dtype);
    const Located low = unit.constant(-1 + frontend::step_below_one(dtype));
    const Located u = unit.with(maximum(unit * 2.0 + low, low));
    return u.with(sign(u)) * u.with(log1p(-u.with(abs(u))));
  });
}

}  // namespace tessera::random
