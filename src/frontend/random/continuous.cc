// SPDX-License-Identifier: Apache-2.0
// Continuous distributions with a closed form in uniform, normal or exponential numbers.
#include <cmath>
#include <numbers>

#include <tessera/ops/reductions.h>

#include "src/frontend/random/internal.h"

namespace tessera::random {

using frontend::drawn;
using frontend::KeyWords;
using frontend::Located;
using frontend::parameter;

Array logistic(Operand key, Shape shape, DType dtype) {
  return drawn("logistic", key, shape, dtype, [&](const KeyWords& words) {
    const Located unit = frontend::unit_uniform(words, shape, dtype);
    const Located tiny = unit.constant(frontend::least_normal(dtype));
    const Located u = unit.with(maximum(unit + tiny, tiny));
    return u.with(log(u)) - u.with(log1p(-u));
  });
}

Array cauchy(Operand key, Shape shape, DType dtype) {
  return drawn("cauchy", key, shape, dtype, [&](const KeyWords& words) {
    const double epsilon = 2 * frontend::step_below_one(dtype);
    const Located low{frontend::program_constant(dtype, epsilon), key.location};
    const Located u = frontend::uniform_between(words, shape, low, low.constant(1));
    return u.with(tan((u - 0.5) * std::numbers::pi));
  });
}

Array rademacher(Operand key, Shape shape, DType dtype) {
  frontend::check_key("random::rademacher", key);
  frontend::check_random_shape("random::rademacher", shape, key.location);
  if (!is_integer(dtype)) frontend::check_random_float("random::rademacher", dtype, key.location);
  return frontend::composed("random_rademacher", key.location, [&] {
    return frontend::random_signs(frontend::key_words(key), shape, dtype).array;
  });
}

namespace {

Located maxwell_numbers(const KeyWords& key, Dims dims, DType dtype) {
  dims.push_back(3);
  const Located n = frontend::normal_numbers(key, dims, dtype);
  return n.with(sqrt(n.with(sum(n * n, -1))));
}

}  // namespace

Array maxwell(Operand key, Shape shape, DType dtype) {
  return drawn("maxwell", key, shape, dtype,
               [&](const KeyWords& words) { return maxwell_numbers(words, shape, dtype); });
}

Array double_sided_maxwell(Operand key, Operand loc, Operand scale, Shape shape, DType dtype) {
  const Location l = key.location;
  const Dims both = frontend::parameter_shape("random::double_sided_maxwell", {},
                                              {{"loc", &loc}, {"scale", &scale}}, l);
  Dims dims = shape.empty() ? both : shape;
  dims.insert(dims.end(), both.begin(), both.end());
  return drawn("double_sided_maxwell", key, dims, dtype, [&](const KeyWords& words) {
    const auto [number_key, sign_key] = frontend::split_in_two(words);
    const Located number = maxwell_numbers(number_key, dims, dtype);
    const Located sign = frontend::random_signs(sign_key, dims, dtype);
    return sign * number * Located{scale.array, l} + Located{loc.array, l};
  });
}

Array pareto(Operand key, Operand b, OptionalShape shape, DType dtype) {
  const Dims dims = frontend::parameter_shape("random::pareto", shape, {{"b", &b}}, key.location);
  frontend::check_narrower("random::pareto", dtype, {{"b", &b}}, key.location);
  return drawn("pareto", key, dims, dtype, [&](const KeyWords& words) {
    const Located e = frontend::exponential_numbers(words, dims, dtype);
    return e.with(exp(e / frontend::as_type({b.array, key.location}, dtype)));
  });
}

Array rayleigh(Operand key, Operand scale, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::rayleigh", shape, {{"scale", &scale}}, l);
  frontend::check_narrower("random::rayleigh", dtype, {{"scale", &scale}}, l);
  return drawn("rayleigh", key, dims, dtype, [&](const KeyWords& words) {
    const Located u = frontend::unit_uniform(words, dims, dtype);
    return frontend::as_type({scale.array, l}, dtype) * u.with(sqrt(u.with(log(u)) * -2.0));
  });
}

Array weibull_min(Operand key, Operand scale, Operand concentration, Shape shape, DType dtype) {
  const Location l = key.location;
  return drawn("weibull_min", key, shape, dtype, [&](const KeyWords& words) {
    const Located e = frontend::exponential_numbers(words, shape, dtype);
    const Located c{concentration.array, l};
    return e.with(power(e, e.with(reciprocal(c)))) * Located{scale.array, l};
  });
}

Array lognormal(Operand key, Operand sigma, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::lognormal", shape, {{"sigma", &sigma}}, l);
  frontend::check_narrower("random::lognormal", dtype, {{"sigma", &sigma}}, l);
  const DType part = is_complex(dtype) ? real_type(dtype) : dtype;
  return drawn("lognormal", key, dims, part, [&](const KeyWords& words) {
    const Located n = frontend::normal_numbers(words, dims, dtype);
    return n.with(exp(n * frontend::as_type({sigma.array, l}, dtype)));
  });
}

Array triangular(Operand key, Operand left, Operand mode, Operand right, OptionalShape shape,
                 DType dtype) {
  const Location l = key.location;
  const frontend::Parameter first{"left", &left}, second{"mode", &mode}, third{"right", &right};
  const Dims dims =
      frontend::parameter_shape("random::triangular", shape, {first, second, third}, l);
  frontend::check_narrower("random::triangular", dtype, {first, second, third}, l);
  return drawn("triangular", key, dims, dtype, [&](const KeyWords& words) {
    const Located a = parameter(left, dims, dtype, l), c = parameter(mode, dims, dtype, l),
                  b = parameter(right, dims, dtype, l);
    const Located u = frontend::unit_uniform(words, dims, dtype);
    const Located below = a + u.with(sqrt(u * (b - a) * (c - a)));
    const Located above = b - u.with(sqrt((1.0 - u) * (b - a) * (b - c)));
    return choose(u < (c - a) / (b - a), below, above);
  });
}

Array wald(Operand key, Operand mean, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::wald", shape, {{"mean", &mean}}, l);
  frontend::check_narrower("random::wald", dtype, {{"mean", &mean}}, l);
  return drawn("wald", key, dims, dtype, [&](const KeyWords& words) {
    const auto [normal_key, uniform_key] = frontend::split_in_two(words);
    const Located m = parameter(mean, dims, dtype, l);
    const Located n = frontend::normal_numbers(normal_key, dims, dtype);
    const Located z = frontend::unit_uniform(uniform_key, dims, dtype);
    const Located y = n * n, square = m * m;
    const Located root = m.with(sqrt(m * 4.0 * y + square * (y * y)));
    const Located x = m + square * y / 2.0 - m / 2.0 * root;
    return choose(z <= m / (m + x), x, square / x);
  });
}

}  // namespace tessera::random
