// SPDX-License-Identifier: Apache-2.0
// The beta function and the regularized incomplete one.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/ir/formulas/special.h"

namespace tessera::ir::formulas {
namespace {

/// lgamma(x) minus Stirling's (x - 1/2) log x - x + log(2 pi) / 2, of x >= 10.
Num stirling_rest(Num x) {
  constexpr std::array<double, 6> kTerms{-691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                                         1.0 / 1260,      -1.0 / 360, 1.0 / 12};
  const Num r = 1.0 / x;
  return x.m->polynomial(r * r, kTerms) * r;
}

}  // namespace

Num betaln(Num a, Num b) {
  Formula& m = *a.m;
  const Num swap = a > b;
  const Num p = choose(swap, b, a), q = choose(swap, a, b);
  const Num direct = lgamma(p) + (lgamma(q) - lgamma(p + q));
  // Of large q the logarithms nearly cancel.
  const Num large = (q > 10.0) & (p > 0.0) & (q < kInfinity);
  const Num safe_q = choose(large, q, m.constant(20)), safe_p = choose(large, p, m.constant(1));
  const Num sum = safe_p + safe_q;
  const Num difference =
      stirling_rest(safe_q) - stirling_rest(sum) - (safe_q - 0.5) * log1p(safe_p / safe_q);
  const Num one_large = lgamma(safe_p) + (difference + safe_p * (1.0 - log(sum)));
  const Num both = (safe_p > 10.0);
  const Num big_p = choose(both, safe_p, m.constant(20));
  const Num two_large = stirling_rest(big_p) + difference + 0.5 * (std::log(2 * std::numbers::pi)) -
                        0.5 * log(big_p) + big_p * log(big_p / sum);
  return choose(large, choose(both, two_large, one_large), direct);
}

Num betainc(Num a, Num b, Num x) {
  Formula& m = *a.m;
  const double eps = m.wide() ? std::numeric_limits<double>::epsilon() / 2
                              : double(std::numeric_limits<float>::epsilon()) / 2;
  const Num no_a = (a == 0.0) | (b == kInfinity), no_b = (b == 0.0) | (a == kInfinity);
  const Num start = x == 0.0, end = x == 1.0;
  const Num zero = (no_b & !end) | (no_a & start), one = (no_a & !start) | (no_b & end);
  const Num wrong = (a < 0.0) | (b < 0.0) | (x < 0.0) | (x > 1.0) | (no_a & no_b) | (a != a) |
                    (b != b) | (x != x);
  // On the other side of the mean the fraction converges slowly; there it is 1 minus the mirrored
  // function.
  const Num direct = x < (a + 1.0) / (a + b + 2.0);
  const Num p = choose(direct, a, b), q = choose(direct, b, a), y = choose(direct, x, 1.0 - x);
  const Num enabled = !(zero | one | wrong);
  const Num c = m.constant(1);
  const double tiny = m.wide() ? 1e-300 : 1e-30;
  const auto away = [tiny](Num v) { return choose(abs(v) < tiny, tiny, v); };
  const Num d = 1.0 / away(1.0 - (p + q) * y / (p + 1.0));
  // Two steps of Lentz's method in a trip (DLMF 8.17.22).
  const auto out = repeat(
      m, "betainc.fraction", enabled, {c, d, d}, {p, q, y}, m.wide() ? 600 : 200,
      [&](Num n, std::vector<Num> s, std::vector<Num> fixed) {
        const Num a1 = fixed[0], b1 = fixed[1], z = fixed[2];
        const Num even = n * (b1 - n) * z / ((a1 + 2.0 * n - 1.0) * (a1 + 2.0 * n));
        Num low = 1.0 / away(1.0 + even * s[1]), high = away(1.0 + even / s[0]);
        const Num h = s[2] * low * high;
        const Num odd = -(a1 + n) * (a1 + b1 + n) * z / ((a1 + 2.0 * n) * (a1 + 2.0 * n + 1.0));
        low = 1.0 / away(1.0 + odd * low);
        high = away(1.0 + odd / high);
        const Num change = low * high;
        return Trip{{high, low, h * change}, abs(change - 1.0) > eps};
      });
  const double very_small = 2 * (m.wide() ? std::numeric_limits<double>::min()
                                          : double(std::numeric_limits<float>::min()));
  const Num side = log1p(-y) * q;
  // a gamma(a) tends to 1 with a.
  const Num tiny_p = exp(side - (lgamma(q) - lgamma(p + q)));
  const Num factor = choose(p < very_small, tiny_p, exp(log(y) * p + side - betaln(p, q)) / p);
  Num result = out[2] * factor;
  result = choose(direct, result, 1.0 - result);
  result = choose(zero, m.constant(0), result);
  result = choose(one, m.constant(1), result);
  return choose(wrong, m.constant(kNan), result);
}

}  // namespace tessera::ir::formulas
