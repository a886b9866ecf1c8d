// SPDX-License-Identifier: Apache-2.0
// The gamma distribution (Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000) and those that are made of it.
#include <cmath>

#include <tessera/custom_derivative.h>
#include <tessera/ops/nn.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/special/special_function.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

namespace {

/// Numbers V for which d V has the gamma distribution of parameters a of 1 or more, where d = a -
/// 1/3. Proposals are drawn from a chain of keys, one for each element.
Located cubes(const KeyWords& keys, const Located& a) {
  const DType t = a.dtype();
  const Located d = a - 1.0 / 3, c = a.constant(1.0 / 3) / a.with(sqrt(d));
  // A proposal is made of normal numbers, of which the first that gives a positive v counts, and a
  // uniform one. Of the three keys that `key` is split in, the first is that of the next proposal,
  // `next` begins as the second and gives the normal numbers, the third gives the uniform one.
  const Location l = a.location;
  const Dims& dims = a.array.shape();
  auto filled = [&](DType type, double v) {
    return Located{broadcasted(program_constant(type, v), dims, l), l};
  };
  const Located zero = filled(u32, 0), next_word = filled(u32, 1);
  const KeyWords next = child_keys(keys, 1);
  const auto step = [&](const std::vector<Located>& now) {
    const KeyWords key{now[0], now[1]}, chain{now[2], now[3]};
    const Located x = normal_of(unit_uniform_each(child_keys(chain, 1), t));
    const Located v = x * c + 1.0;
    const Located square = x * x, cube = v * v * v;
    const Located u = unit_uniform_each(child_keys(key, 2), t);
    const Located bound = square * 0.5 + d * ((1.0 - cube) + x.with(log(cube)));
    const Located negative = v <= 0.0;
    const Located rejected = (u >= 1.0 - square * square * 0.0331) & (u.with(log(u)) >= bound);
    const KeyWords other = child_keys(key, 0);
    auto pick = [&](const Located& p, const Located& q) { return choose(negative, p, q); };
    const auto [n0, n1] =
        threefry({pick(chain.first, other.first), pick(chain.second, other.second)}, zero,
                 choose(negative, zero, next_word));
    return LoopState{negative | rejected,
                     {pick(key.first, other.first), pick(key.second, other.second), n0, n1, cube}};
  };
  const LoopState init{filled(DType::pred, 1),
                       {keys.first, keys.second, next.first, next.second, filled(t, 1)}};
  return loop_by_elements("random_gamma", init, {d, c}, step).back();
}

Array samples(const KeyWords& keys, const Located& a, bool logarithm) {
  const DType t = a.dtype();
  // Below 1: gamma(a) is gamma(a + 1) u^(1/a), in logarithms where this would underflow.
  const Located large = a >= 1.0;
  const Located raised = choose(large, a, a + 1.0);
  const Located d = raised - 1.0 / 3;
  const Located v = cubes(child_keys(keys, 0), raised);
  const Located u = unit_uniform_each(child_keys(keys, 1), t);
  if (!logarithm) {
    const Located boost = u.with(power(1.0 - u, a.constant(1) / a));
    return ((d * v) * choose(large, a.constant(1), boost)).array;
  }
  const Located log_u = u.with(log1p(-u));
  const Located boost = choose(as_type(large, u32) + as_type(log_u == 0.0, u32) > 0.0,
                               a.constant(0), log_u * (a.constant(1) / a));
  return ((d.with(log(d)) + v.with(log(v))) + boost).array;
}

/// How a sample, or its logarithm, moves with the parameter while the probability below it stays
/// the same.
Located slope(const Located& a, const Located& y, bool logarithm) {
  static const SpecialFunction f{
      "the derivative of gamma samples",
      [](const std::vector<ir::Num>& x) { return ir::formulas::gamma_sample_by_a(x[0], x[1]); },
      {nullptr, nullptr}};
  if (!logarithm) return a.with(call_special(f, {a, y}));
  const Located whole = y.with(exp(y));
  const Located x = choose(whole == 0.0, whole.constant(least_normal(y.dtype())), whole);
  return a.with(call_special(f, {a, x})) / x;
}

}  // namespace

Located gamma_numbers(const KeyWords& key, const Located& a, bool logarithm) {
  const Location l = a.location;
  const KeyWords keys = hashed_positions(key, a.array.shape());
  const auto draw = [l, logarithm](const Array& k0, const Array& k1, const Array& p) {
    return by_elements(
        "random_gamma", {k0, k1, p},
        [l, logarithm](const std::vector<Array>& x) {
          return samples({{x[0], l}, {x[1], l}}, {x[2], l}, logarithm);
        },
        l);
  };
  auto function = custom_jvp([draw](Array k0, Array k1, Array p) { return draw(k0, k1, p); },
                             "random_gamma", l);
  function.def_jvp([draw, l, logarithm](std::tuple<Array, Array, Array> x,
                                        std::tuple<Array, Array, Array> dx) {
    const auto [k0, k1, p] = x;
    const Located y{draw(k0, k1, p), l};
    return std::pair(y.array, (slope({p, l}, y, logarithm) * Located{std::get<2>(dx), l}).array);
  });
  return a.with(function.call_at(l, keys.first.array, keys.second.array, a.array));
}

Located chisquare_numbers(const KeyWords& key, const Dims& dims, const Located& df) {
  const Located half{broadcasted((df / 2.0).array, dims, df.location), df.location};
  const Located logs = gamma_numbers(key, half, true);
  return logs.with(exp(logs)) * 2.0;
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::drawn;
using frontend::gamma_numbers;
using frontend::KeyWords;
using frontend::Located;
using frontend::parameter;

namespace {

Array gamma_of(const char* name, const Operand& key, const Operand& a, const OptionalShape& shape,
               DType dtype, bool logarithm) {
  const Dims dims =
      frontend::parameter_shape(std::string("random::") + name, shape, {{"a", &a}}, key.location);
  return drawn(name, key, dims, dtype, [&](const KeyWords& words) {
    return gamma_numbers(words, parameter(a, dims, dtype, key.location), logarithm);
  });
}

}  // namespace

Array gamma(Operand key, Operand a, OptionalShape shape, DType dtype) {
  return gamma_of("gamma", key, a, shape, dtype, false);
}

Array loggamma(Operand key, Operand a, OptionalShape shape, DType dtype) {
  return gamma_of("loggamma", key, a, shape, dtype, true);
}

Array beta(Operand key, Operand a, Operand b, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::beta", shape, {{"a", &a}, {"b", &b}}, l);
  frontend::check_narrower("random::beta", dtype, {{"a", &a}, {"b", &b}}, l);
  return drawn("beta", key, dims, dtype, [&](const KeyWords& words) {
    const auto [key_a, key_b] = frontend::split_in_two(words);
    const Located x = gamma_numbers(key_a, parameter(a, dims, dtype, l), true);
    const Located y = gamma_numbers(key_b, parameter(b, dims, dtype, l), true);
    // The quotient of gamma numbers, scaled by the larger one.
    const Located most = x.with(maximum(x, y));
    const Located p = x.with(exp(x - most)), q = x.with(exp(y - most));
    return p / (p + q);
  });
}

Array dirichlet(Operand key, Operand alpha, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const tessera::Shape& have = internal::impl_of(alpha.array, l).shape;
  if (have.rank() < 1) {
    throw ShapeError("random::dirichlet: alpha is " + have.to_string() +
                         "; its last dimension holds the parameters",
                     l);
  }
  OptionalShape whole;
  if (shape.given()) {
    Shape dims = *shape.given();
    dims.push_back(have.dims.back());
    whole = dims;
  }
  const Dims dims = frontend::parameter_shape("random::dirichlet", whole, {{"alpha", &alpha}}, l);
  return drawn("dirichlet", key, dims, dtype, [&](const KeyWords& words) {
    const Located logs = gamma_numbers(words, parameter(alpha, dims, dtype, l), true);
    return logs.with(softmax(logs, -1));
  });
}

Array t(Operand key, Operand df, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::t", shape, {{"df", &df}}, l);
  frontend::check_narrower("random::t", dtype, {{"df", &df}}, l);
  return drawn("t", key, dims, dtype, [&](const KeyWords& words) {
    const auto [normal_key, gamma_key] = frontend::split_in_two(words);
    const Located n = frontend::normal_numbers(normal_key, dims, dtype);
    const Located half = parameter(df, dims, dtype, l) / 2.0;
    return n * n.with(sqrt(half / gamma_numbers(gamma_key, half, false)));
  });
}

Array chisquare(Operand key, Operand df, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::chisquare", shape, {{"df", &df}}, l);
  frontend::check_narrower("random::chisquare", dtype, {{"df", &df}}, l);
  return drawn("chisquare", key, dims, dtype, [&](const KeyWords& words) {
    return frontend::chisquare_numbers(words, dims, frontend::as_type({df.array, l}, dtype));
  });
}

Array f(Operand key, Operand dfnum, Operand dfden, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const frontend::Parameter first{"dfnum", &dfnum}, second{"dfden", &dfden};
  const Dims dims = frontend::parameter_shape("random::f", shape, {first, second}, l);
  frontend::check_narrower("random::f", dtype, {first, second}, l);
  return drawn("f", key, dims, dtype, [&](const KeyWords& words) {
    const auto [den_key, num_key] = frontend::split_in_two(words);
    const Located n = frontend::as_type({dfnum.array, l}, dtype);
    const Located d = frontend::as_type({dfden.array, l}, dtype);
    return (frontend::chisquare_numbers(num_key, dims, n) / n) /
           (frontend::chisquare_numbers(den_key, dims, d) / d);
  });
}

namespace {

Located generalized_numbers(const KeyWords& key, const Operand& p, const Dims& dims, DType dtype,
                            Location l) {
  const auto [gamma_key, sign_key] = frontend::split_in_two(key);
  const Located exponent = 1.0 / frontend::as_type({p.array, l}, dtype);
  const Located a{frontend::broadcasted(exponent.array, dims, l), l};
  const Located g = gamma_numbers(gamma_key, a, false);
  return frontend::random_signs(sign_key, dims, dtype) * g.with(power(g, exponent));
}

}  // namespace

Array generalized_normal(Operand key, Operand p, Shape shape, DType dtype) {
  const Location l = key.location;
  const Dims dims = frontend::parameter_shape("random::generalized_normal", shape, {{"p", &p}}, l);
  return drawn("generalized_normal", key, dims, dtype, [&](const KeyWords& words) {
    return generalized_numbers(words, p, dims, dtype, l);
  });
}

Array ball(Operand key, std::int64_t d, Operand p, Shape shape, DType dtype) {
  const Location l = key.location;
  Dims dims = shape;
  dims.push_back(d);
  frontend::check_random_shape("random::ball", dims, l);
  const tessera::Shape& have = internal::impl_of(p.array, l).shape;
  if (have.rank() != 0) {
    throw ShapeError("random::ball: p is " + have.to_string() + "; it must be a scalar", l);
  }
  return drawn("ball", key, dims, dtype, [&](const KeyWords& words) {
    const auto [normal_key, exponential_key] = frontend::split_in_two(words);
    const Located g = generalized_numbers(normal_key, p, dims, dtype, l);
    const Located e = frontend::exponential_numbers(exponential_key, shape, dtype);
    const Located power_of = frontend::as_type({p.array, l}, dtype);
    const Located total = g.with(sum(g.with(power(g.with(abs(g)), power_of)), -1)) + e;
    const Located norm = g.with(power(total, 1.0 / power_of));
    return g / norm.with(expand_dims(norm, -1));
  });
}

}  // namespace tessera::random
