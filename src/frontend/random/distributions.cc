// SPDX-License-Identifier: Apache-2.0
// Distributions derived from uniform numbers.
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/ops/reductions.h>

#include "src/base/literal_util.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

namespace {

/// The distance from 1 to the next smaller number.
double step_below_one(DType t) {
  return std::ldexp(1.0, t == f64 ? -53 : t == f32 ? -24 : t == f16 ? -11 : -8);
}

double least_normal(DType t) { return std::ldexp(1.0, t == f64 ? -1022 : t == f16 ? -14 : -126); }

}  // namespace

Located normal_numbers(const KeyWords& key, const Dims& dims, DType dtype) {
  const Location l = key.first.location;
  if (is_complex(dtype)) {
    const DType part = real_type(dtype);
    const auto [real_key, imag_key] = split_in_two(key);
    const Located re = normal_numbers(real_key, dims, part);
    const Located im = normal_numbers(imag_key, dims, part);
    // Real and imaginary part are divided separately: a complex division would round differently.
    const Located root = re.constant(std::numbers::sqrt2);
    return re.with(complex(re / root, im / root));
  }
  const Located low{program_constant(dtype, -1 + step_below_one(dtype)), l};
  // 1 - low rounds to 2, so the product is exact.
  const Located u = low.with(maximum(unit_uniform(key, dims, dtype) * 2.0 + low, low));
  return u.with(erf_inv(u)) * std::numbers::sqrt2;
}

Located gumbel_numbers(const KeyWords& key, const Dims& dims, DType dtype) {
  const Located unit = unit_uniform(key, dims, dtype);
  const Located tiny = unit.constant(least_normal(dtype));
  const Located u = unit.with(maximum(unit + tiny, tiny));
  return -u.with(log(-u.with(log(u))));
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::composed;
using frontend::Located;
using internal::impl_of;

namespace {

/// Makes the checks that all distributions share, then the numbers.
template <class F>
Array drawn(const std::string& name, const Operand& key, const Shape& shape, DType dtype, F f) {
  const std::string op = "random::" + name;
  frontend::check_key(op, key);
  frontend::check_random_shape(op, shape, key.location);
  frontend::check_random_float(op, dtype, key.location);
  return composed("random_" + name, key.location,
                  [&]() -> Array { return f(frontend::key_words(key)).array; });
}

bool ends_with(const Shape& shape, const Dims& end) {
  return shape.size() >= end.size() &&
         std::equal(end.begin(), end.end(), shape.end() - std::ptrdiff_t(end.size()));
}

}  // namespace

Array normal(Operand key, Shape shape, DType dtype) {
  if (!is_complex(dtype)) {
    return drawn("normal", key, shape, dtype, [&](const frontend::KeyWords& words) {
      return frontend::normal_numbers(words, shape, dtype);
    });
  }
  return drawn("normal", key, shape, real_type(dtype), [&](const frontend::KeyWords& words) {
    return frontend::normal_numbers(words, shape, dtype);
  });
}

Array truncated_normal(Operand key, Operand lower, Operand upper, Shape shape, DType dtype) {
  for (const Operand* bound : {&lower, &upper}) {
    const Dims& have = impl_of(bound->array, key.location).shape.dims;
    if (frontend::broadcast_shapes("random::truncated_normal", have, shape, key.location) !=
        shape) {
      throw ShapeError("random::truncated_normal of shape " + to_string(shape) + ": a bound is " +
                           bound->array.type_string() + " and doesn't broadcast to it",
                       key.location);
    }
  }
  return drawn("truncated_normal", key, shape, dtype, [&](const frontend::KeyWords& words) {
    const Located low = frontend::as_type({lower.array, key.location}, dtype);
    const Located high = frontend::as_type({upper.array, key.location}, dtype);
    const Located root = low.constant(std::numbers::sqrt2);
    const Located u = frontend::uniform_between(words, shape, low.with(erf(low / root)),
                                                low.with(erf(high / root)));
    const Located x = u.with(erf_inv(u)) * root;
    const double infinity = std::numeric_limits<double>::infinity();
    const Located least = low.with(nextafter(low, low.constant(infinity)));
    const Located most = low.with(nextafter(high, high.constant(-infinity)));
    return x.with(minimum(x.with(maximum(x, least)), most));
  });
}

Array bernoulli(Operand key, Operand p, std::optional<Shape> shape) {
  const tessera::Shape& given = impl_of(p.array, key.location).shape;
  const Shape dims = shape.value_or(given.dims);
  if (frontend::broadcast_shapes("random::bernoulli", given.dims, dims, key.location) != dims) {
    throw ShapeError("random::bernoulli of shape " + to_string(dims) + ": p is " +
                         given.to_string() + " and doesn't broadcast to it",
                     key.location);
  }
  const DType t = frontend::to_inexact(given.dtype);
  return drawn("bernoulli", key, dims, t, [&](const frontend::KeyWords& words) {
    return frontend::unit_uniform(words, dims, t) < frontend::as_type({p.array, key.location}, t);
  });
}

Array exponential(Operand key, Shape shape, DType dtype) {
  return drawn("exponential", key, shape, dtype, [&](const frontend::KeyWords& words) {
    const Located u = frontend::unit_uniform(words, shape, dtype);
    return -u.with(log1p(-u));
  });
}

Array gumbel(Operand key, Shape shape, DType dtype) {
  return drawn("gumbel", key, shape, dtype, [&](const frontend::KeyWords& words) {
    return frontend::gumbel_numbers(words, shape, dtype);
  });
}

Array laplace(Operand key, Shape shape, DType dtype) {
  return drawn("laplace", key, shape, dtype, [&](const frontend::KeyWords& words) {
    const Located unit = frontend::unit_uniform(words, shape, dtype);
    const Located low = unit.constant(-1 + frontend::step_below_one(dtype));
    const Located u = unit.with(maximum(unit * 2.0 + low, low));
    return u.with(sign(u)) * u.with(log1p(-u.with(abs(u))));
  });
}

Array categorical(Operand key, Operand logits, std::int64_t axis, std::optional<Shape> shape) {
  const tessera::Shape& have = impl_of(logits.array, key.location).shape;
  axis = frontend::normalize_axis("random::categorical", axis, have.rank(), key.location);
  Dims batch = have.dims;
  batch.erase(batch.begin() + axis);
  const Shape result = shape.value_or(batch);
  if (!ends_with(result, batch)) {
    throw ShapeError("random::categorical of shape " + to_string(result) + " with logits " +
                         have.to_string() + " along axis " + std::to_string(axis) +
                         ": the shape must end with " + to_string(batch),
                     key.location);
  }
  Dims dims(result.begin(), result.end() - std::ptrdiff_t(batch.size()));
  const auto extra = std::int64_t(dims.size());
  dims.insert(dims.end(), have.dims.begin(), have.dims.end());
  const DType t = frontend::to_inexact(have.dtype);
  return drawn("categorical", key, dims, t, [&](const frontend::KeyWords& words) {
    const Located noise = frontend::gumbel_numbers(words, dims, t);
    const Located weighted = noise + frontend::as_type({logits.array, key.location}, t);
    return noise.with(argmax(weighted, axis + extra));
  });
}

}  // namespace tessera::random
