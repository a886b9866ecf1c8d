// SPDX-License-Identifier: Apache-2.0
// Discrete distributions: geometric, Poisson, binomial and multinomial.
//
// Poisson and binomial numbers are drawn in rounds: each round takes new keys for all elements,
// until none needs another one. As in JAX, what an element gets from transformed rejection
// (Hoermann, "The transformed rejection method for generating Poisson random variables", 1993) is
// the last proposal that it accepted, so that the rounds of others count.
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/control_flow.h>
#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/special.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

namespace {

Located filled(const Located& like, DType dtype, double v) {
  return like.with(broadcasted(program_constant(dtype, v), like.array.shape(), like.location));
}
Located fn(Array (*f)(Operand), const Located& x) { return x.with(f(x)); }
Located negated(const Located& x) { return x.with(logical_not(x)); }
Located not_a_number(const Located& x) { return x != x; }

/// Rounds that a dtype can count, at most as many as an s32 can.
double most_rounds(DType t) {
  if (is_floating(t)) return t == f16 ? 65504 : 2147483647;
  const int width = int(byte_size(t)) * 8 - (is_unsigned_integer(t) ? 0 : 1);
  return std::min(std::ldexp(1.0, width) - 1, 2147483647.0);
}

/// What a round does: from its state and keys, the next state. The first value says which elements
/// need another round.
using Round =
    std::function<std::vector<Located>(const std::vector<Located>& state, const KeyWords& key,
                                       Located* next_key0, Located* next_key1)>;

/// Makes rounds while an element needs one, and there are fewer than `most`.
std::vector<Located> in_rounds(const char* name, const KeyWords& key, std::vector<Located> state,
                               const std::vector<Located>& read, double most, const Round& round) {
  const Location l = key.first.location;
  const Located zero{program_constant(DType::s32, 0), l};
  std::vector<Located> carried{zero, key.first, key.second};
  carried.insert(carried.end(), state.begin(), state.end());
  vary_together(&carried, read);
  std::vector<Array> init;
  for (const Located& v : carried) init.push_back(v.array);
  auto located = [&](const std::vector<Array>& xs) {
    std::vector<Located> out;
    for (const Array& x : xs) out.push_back({x, l});
    return out;
  };
  const std::vector<Array> last = internal::while_core(
      init, std::vector<std::string>(init.size()),
      [&](const std::vector<Array>& now) {
        const Located more{any({now[3], l}), l};
        return std::vector<Array>{(more & (Located{now[0], l} < most)).array};
      },
      [&](const std::vector<Array>& now) {
        const std::vector<Located> x = located(now);
        Located k0 = x[1], k1 = x[2];
        const std::vector<Located> after = round({x.begin() + 3, x.end()}, {x[1], x[2]}, &k0, &k1);
        std::vector<Array> out{(x[0] + 1.0).array, k0.array, k1.array};
        for (const Located& v : after) out.push_back(v.array);
        return out;
      },
      name, l);
  std::vector<Located> out = located(last);
  out.erase(out.begin(), out.begin() + 3);
  return out;
}

// ------------------------------------------------------------------ Poisson

/// Knuth's method, for small means: as many uniform numbers as have a product above exp(-mean).
Located poisson_products(const KeyWords& key, const Located& lam, DType dtype) {
  const Dims dims = lam.array.shape();
  const Located log_product = filled(lam, f32, 0);
  const std::vector<Located> last = in_rounds(
      "random_poisson", key, {log_product > -lam, log_product, filled(lam, dtype, 0)}, {lam},
      most_rounds(dtype),
      [&](const std::vector<Located>& now, const KeyWords& keys, Located* k0, Located* k1) {
        const auto [next, own] = split_in_two(keys);
        *k0 = next.first, *k1 = next.second;
        const Located k = choose(now[0], now[2] + 1.0, now[2]);
        const Located product = now[1] + fn(log, unit_uniform(own, dims, f32));
        return std::vector<Located>{product > -lam, product, k};
      });
  return last[2] - 1.0;
}

/// Transformed rejection, for means of 10 or more.
Located poisson_rejection(const KeyWords& key, const Located& lam, DType dtype) {
  const Dims dims = lam.array.shape();
  const Located log_lam = fn(log, lam);
  const Located b = fn(sqrt, lam) * 2.53 + 0.931, a = b * 0.02483 + -0.059;
  const Located inv_alpha = 1.1328 / (b - 3.4) + 1.1239;
  const Located v_r = 0.9277 - 3.6224 / (b - 2.0);
  const std::vector<Located> last = in_rounds(
      "random_poisson", key, {filled(lam, DType::pred, 1), filled(lam, f32, -1)},
      {lam, log_lam, a, b, inv_alpha, v_r}, most_rounds(dtype),
      [&](const std::vector<Located>& now, const KeyWords& keys, Located* k0, Located* k1) {
        const std::vector<KeyWords> own = split_in(keys, 3);
        *k0 = own[0].first, *k1 = own[0].second;
        const Located u = unit_uniform(own[1], dims, f32) - 0.5;
        const Located v = unit_uniform(own[2], dims, f32);
        const Located shifted = 0.5 - fn(abs, u);
        const Located k = fn(floor, (a * 2.0 / shifted + b) * u + lam + 0.43);
        const Located s = fn(log, v * inv_alpha / (a / (shifted * shifted) + b));
        const Located t = -lam + k * log_lam - fn(lgamma, k + 1.0);
        const Located at_once = (shifted >= 0.07) & (v <= v_r);
        const Located rejected = (k < 0.0) | ((shifted < 0.013) & (v > shifted));
        const Located accepted = at_once | (negated(rejected) & (s <= t));
        return std::vector<Located>{now[0] & negated(accepted), choose(accepted, k, now[1])};
      });
  return as_type(last[1], dtype);
}

// ------------------------------------------------------------------ binomial

/// As many geometric numbers as have a sum up to n, for small n p.
Located binomial_sums(const KeyWords& key, const Located& n, const Located& p, DType dtype) {
  const Dims dims = p.array.shape();
  const DType t = p.dtype();
  const Located log_failure = fn(log1p, -p), zero = filled(p, t, 0);
  const std::vector<Located> last = in_rounds(
      "random_binomial", key, {zero <= n, zero, zero}, {n, log_failure}, most_rounds(dtype),
      [&](const std::vector<Located>& now, const KeyWords& keys, Located* k0, Located* k1) {
        const auto [own, next] = split_in_two(keys);
        *k0 = next.first, *k1 = next.second;
        const Located count = choose(now[0], now[2] + 1.0, now[2]);
        const Located trials = fn(ceil, fn(log, unit_uniform(own, dims, t)) / log_failure);
        const Located total = now[1] + trials;
        return std::vector<Located>{total <= n, total, count};
      });
  return as_type(last[2] - 1.0, dtype);
}

/// log(k!) less Stirling's approximation of it.
Located stirling_rest(const Located& k) {
  static const std::vector<double> kFirst = [] {
    std::vector<double> rests;
    const double half_log = 0.5 * std::log(2 * std::numbers::pi);
    for (int i = 0; i < 10; ++i) {
      rests.push_back(std::lgamma(i + 1.0) - (i + 0.5) * std::log(i + 1.0) + (i + 1.0) - half_log);
    }
    return rests;
  }();
  const Located capped = k.with(minimum(k.with(maximum(k, k.constant(0))), k.constant(9)));
  const Located square = (capped + 1.0) * (capped + 1.0);
  Located out = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (capped + 1.0);
  const Located whole = fn(floor, capped), few = k <= 9.0;
  for (std::size_t i = 0; i < kFirst.size(); ++i) {
    out = choose(few & (whole == double(i)), k.constant(kFirst[i]), out);
  }
  return out;
}

/// Transformed rejection, for n p above 10 and p up to a half.
Located binomial_rejection(const KeyWords& key, const Located& n, const Located& p, DType dtype) {
  const Dims dims = p.array.shape();
  const DType t = p.dtype();
  const Located deviation = fn(sqrt, n * p * (1.0 - p));
  const Located b = deviation * 2.53 + 1.15, a = b * 0.0248 + -0.0873 + p * 0.01;
  const Located c = n * p + 0.5, v_r = 0.92 - 4.2 / b, r = p / (1.0 - p);
  const Located alpha = (5.1 / b + 2.83) * deviation, m = fn(floor, (n + 1.0) * p);
  const Located fixed = (m + 0.5) * fn(log, (m + 1.0) / (r * (n - m + 1.0)));
  const Located rests = stirling_rest(m) + stirling_rest(n - m);
  const std::vector<Located> last = in_rounds(
      "random_binomial", key, {filled(p, DType::pred, 1), filled(p, t, -1)},
      {n, a, b, c, v_r, r, alpha, m, fixed, rests}, most_rounds(dtype),
      [&](const std::vector<Located>& now, const KeyWords& keys, Located* k0, Located* k1) {
        const std::vector<KeyWords> own = split_in(keys, 3);
        *k0 = own[0].first, *k1 = own[0].second;
        const Located u = unit_uniform(own[1], dims, t) - 0.5;
        const Located v = unit_uniform(own[2], dims, t);
        const Located shifted = 0.5 - fn(abs, u);
        const Located at_once = (shifted >= 0.07) & (v <= v_r);
        const Located k = fn(floor, (a * 2.0 / shifted + b) * u + c);
        const Located rejected = (k < 0.0) | (k > n);
        const Located s = fn(log, v * alpha / (a / (shifted * shifted) + b));
        const Located bound = fixed + (n + 1.0) * fn(log, (n - m + 1.0) / (n - k + 1.0)) +
                              (k + 0.5) * fn(log, r * (n - k + 1.0) / (k + 1.0)) + rests -
                              stirling_rest(k) - stirling_rest(n - k);
        const Located accepted = at_once | (negated(rejected) & (s <= bound));
        return std::vector<Located>{now[0] & negated(accepted), choose(accepted, k, now[1])};
      });
  return as_type(last[1], dtype);
}

}  // namespace

Located binomial_numbers(const KeyWords& key, const Located& n, const Located& p, DType dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Located less = p < 0.5;
  Located q = choose(less, p, 1.0 - p);
  const Located no_count = not_a_number(n) | (n < 0.0), endless = fn(isinf, n);
  const Located no_p = not_a_number(q) | (q < 0.0);
  q = choose(no_p, q.constant(0.01), q);
  const Located small = no_count | (n * q <= 10.0);
  const Located count = fn(floor, n);
  const Located sums = binomial_sums(key, choose(small, count, n.constant(0)), q, dtype);
  const Located others = binomial_rejection(key, choose(small, n.constant(1e4), count),
                                            choose(small, q.constant(0.5), q), dtype);
  Located out = choose(small, sums, others);
  const Located invalid = no_p | no_count;
  out = choose(invalid, out.constant(std::numeric_limits<double>::quiet_NaN()), out);
  out = choose(endless & negated(invalid), out.constant(infinity), out);
  return choose(less | no_count | not_a_number(p) | endless, out, as_type(count, dtype) - out);
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::drawn;
using frontend::KeyWords;
using frontend::Located;
using frontend::parameter;

namespace {

void check_counted(const std::string& op, DType dtype, Location location) {
  if (is_integer(dtype)) return;
  throw DTypeError(op + " as " + std::string(name(dtype)) + "; valid are integers", location);
}

/// The float dtype in which parameters are computed.
DType float_of(const std::string& op, std::initializer_list<frontend::Parameter> parameters,
               Location l) {
  std::vector<Array> arrays;
  for (const frontend::Parameter& p : parameters) arrays.push_back(p.value->array);
  const DType t = frontend::to_inexact(frontend::promote(arrays, l).dtype);
  frontend::check_random_float(op + ", whose parameters are", t, l);
  return t;
}

Located constant_of(const Operand& value, const Dims& dims, DType dtype, Location l) {
  const Located x = parameter(value, dims, dtype, l);
  return x.with(stop_gradient(Operand(x)));
}

}  // namespace

Array poisson(Operand key, Operand lam, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  check_counted("random::poisson", dtype, l);
  const Dims dims = frontend::parameter_shape("random::poisson", shape, {{"lam", &lam}}, l);
  return drawn("poisson", key, dims, f32, [&](const KeyWords& words) {
    const Located mean = constant_of(lam, dims, f32, l);
    const Located small = (mean != mean) | (mean < 10.0);
    const Located few =
        frontend::poisson_products(words, choose(small, mean, mean.constant(0)), dtype);
    const Located many =
        frontend::poisson_rejection(words, choose(small, mean.constant(1e5), mean), dtype);
    return choose(mean == 0.0, few.constant(0), choose(small, few, many));
  });
}

Array geometric(Operand key, Operand p, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  check_counted("random::geometric", dtype, l);
  const Dims dims = frontend::parameter_shape("random::geometric", shape, {{"p", &p}}, l);
  const DType t = float_of("random::geometric", {{"p", &p}}, l);
  return drawn("geometric", key, dims, t, [&](const KeyWords& words) {
    const Located unit = frontend::unit_uniform(words, dims, t);
    const Located u = choose(unit == 0.0, unit.constant(1), unit);
    const Located failure = u.with(log1p(-frontend::as_type({p.array, l}, t)));
    return frontend::as_type(u.with(floor(u.with(log(u)) / failure)) + 1.0, dtype);
  });
}

Array binomial(Operand key, Operand n, Operand p, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const frontend::Parameter first{"n", &n}, second{"p", &p};
  const Dims dims = frontend::parameter_shape("random::binomial", shape, {first, second}, l);
  const DType t = float_of("random::binomial", {second}, l);
  return drawn("binomial", key, dims, dtype, [&](const KeyWords& words) {
    return frontend::binomial_numbers(words, constant_of(n, dims, t, l), constant_of(p, dims, t, l),
                                      dtype);
  });
}

Array multinomial(Operand key, Operand n, Operand p, OptionalShape shape, DType dtype) {
  const Location l = key.location;
  const frontend::Parameter trials{"n", &n}, chances{"p", &p};
  const Dims dims = frontend::parameter_shape("random::multinomial", shape, {chances}, l);
  if (dims.empty()) {
    throw ShapeError("random::multinomial: p is a scalar; its last dimension holds the outcomes",
                     l);
  }
  const Dims batch(dims.begin(), dims.end() - 1);
  frontend::parameter_shape("random::multinomial", batch, {trials}, l);
  const DType t = float_of("random::multinomial", {trials, chances}, l);
  const std::int64_t outcomes = dims.back();
  return drawn("multinomial", key, dims, dtype, [&](const KeyWords& words) {
    const auto rank = std::int64_t(dims.size());
    const Located all = constant_of(p, dims, t, l);
    const Located front{frontend::moved_dim(all.array, rank - 1, 0, l), l};
    // Of those that the outcomes before left, each takes its share.
    const Located left = front.with(flip({cumsum(front.with(flip(front, 0)), 0), l}, 0));
    const Located share = front / choose(left == 0.0, left.constant(1), left);
    const auto [k0, k1] = frontend::hashed_positions(words, {outcomes});
    const Located remaining = constant_of(n, batch, t, l);
    using Slices = std::tuple<Array, Array, Array>;
    const auto [rest, counts] = scan(
        [&](Array left_over, Slices slice) {
          const auto& [ratio, word0, word1] = slice;
          const Located r{ratio, l};
          const Located chance = r.with(minimum(r.with(maximum(r, r.constant(0))), r.constant(1)));
          const Located count =
              frontend::binomial_numbers({{word0, l}, {word1, l}}, {left_over, l}, chance, t);
          return std::pair((Located{left_over, l} - count).array, count.array);
        },
        remaining.array, Slices(share.array, k0.array, k1.array), {}, l);
    return frontend::as_type({frontend::moved_dim(counts, 0, rank - 1, l), l}, dtype);
  });
}

}  // namespace tessera::random
