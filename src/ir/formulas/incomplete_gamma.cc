// SPDX-License-Identifier: Apache-2.0
// The incomplete gamma functions: a series where x is the smaller one, else a continued fraction.
#include <array>
#include <limits>
#include <numbers>

#include "src/ir/formulas/special.h"

namespace tessera::ir::formulas {
namespace {

constexpr int kMostTerms = 2000;

double epsilon(const Formula& m) {
  return m.wide() ? std::numeric_limits<double>::epsilon()
                  : double(std::numeric_limits<float>::epsilon());
}

/// A number and its derivative by a.
struct Dual {
  Num v, d;
};
Dual operator+(Dual x, Dual y) { return {x.v + y.v, x.d + y.d}; }
Dual operator*(Dual x, Dual y) { return {x.v * y.v, x.d * y.v + x.v * y.d}; }
Dual operator/(Dual x, Dual y) {
  const Num q = x.v / y.v;
  return {q, (x.d - q * y.d) / y.v};
}

/// The sum of x^n / (a+1)..(a+n).
Dual series(Num a, Num x, Num enabled, bool with_derivative) {
  Formula& m = *a.m;
  const Num one = m.constant(1), zero = m.constant(0);
  const double eps = epsilon(m);
  const auto out = repeat(m, "gammainc.series", enabled, {one, one, zero, zero}, {a, x}, kMostTerms,
                          [&](Num n, std::vector<Num> s, std::vector<Num> fixed) {
                            const Num next = fixed[0] + n, ratio = fixed[1] / next;
                            const Num term = s[0] * ratio, sum = s[1] + term;
                            if (!with_derivative)
                              return Trip{{term, sum, s[2], s[3]}, term > sum * eps};
                            const Num slope = s[2] * ratio - term / next, total = s[3] + slope;
                            return Trip{{term, sum, slope, total}, abs(slope) > abs(total) * eps};
                          });
  return {out[1], out[3]};
}

/// The continued fraction of Q(a, x) gamma(a) exp(x) x^-a, by Lentz's method.
Dual fraction(Num a, Num x, Num enabled, bool with_derivative) {
  Formula& m = *a.m;
  const Num one = m.constant(1), zero = m.constant(0);
  const double eps = epsilon(m), tiny = m.wide() ? 1e-300 : 1e-30;
  // What isn't computed is that of harmless numbers.
  const Num safe_a = choose(enabled, a, one), safe_x = choose(enabled, x, one + 1.0);
  const Dual b{safe_x + 1.0 - safe_a, m.constant(-1)};
  const Dual d = Dual{one, zero} / b, c{m.constant(1 / tiny), zero};
  const auto out = repeat(
      m, "gammainc.fraction", enabled, {b.v, c.v, c.d, d.v, d.d, d.v, d.d}, {safe_a}, kMostTerms,
      [&](Num n, std::vector<Num> s, std::vector<Num> fixed) {
        Formula& f = *n.m;
        const Dual unit{f.constant(1), f.constant(0)};
        const Dual factor{n * (fixed[0] - n), n};
        const Dual step{s[0] + 2.0, f.constant(-1)};
        Dual low = factor * Dual{s[3], s[4]} + step, high = step + factor / Dual{s[1], s[2]};
        low.v = choose(abs(low.v) < tiny, tiny, low.v);
        high.v = choose(abs(high.v) < tiny, tiny, high.v);
        low = unit / low;
        const Dual h{s[5], s[6]}, next = h * (low * high);
        const Num moved = with_derivative ? abs(next.d - h.d) > (abs(next.d) + abs(next.v)) * eps
                                          : abs(next.v - h.v) > abs(next.v) * eps;
        return Trip{{step.v, high.v, high.d, low.v, low.d, next.v, next.d}, moved};
      });
  return {out[5], out[6]};
}

/// x^a exp(-x) / gamma(a).
Num prefactor(Num a, Num x) {
  Formula& m = *a.m;
  const Num direct = exp(a * log(x) - x - lgamma(a));
  // By Stirling's formula, so that large terms don't cancel.
  const Num safe = choose(a > 10.0, a, m.constant(10));
  const Num u = (x - safe) / safe;
  const Num r = 1.0 / safe, r2 = r * r;
  constexpr std::array<double, 5> kStirling{1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360,
                                            1.0 / 12};
  const Num rest = m.polynomial(r2, kStirling) * r;
  const Num large = sqrt(safe * (0.5 / std::numbers::pi)) * exp(safe * (log1p(u) - u) - rest);
  return choose(a > 10.0, large, direct);
}

struct Parts {
  Num lower, upper, x_is_zero, x_is_infinite, a_is_zero, wrong;
  Num use_upper;  ///< whether x is past the middle
};

Parts parts_of(Num a, Num x) {
  Formula& m = *a.m;
  Parts p;
  p.x_is_zero = x == 0.0;
  p.x_is_infinite = x == kInfinity;
  p.a_is_zero = a == 0.0;
  p.wrong = (x < 0.0) | (a < 0.0) | (p.a_is_zero & p.x_is_zero) | (a != a) | (x != x) |
            ((a == kInfinity) & p.x_is_infinite);
  p.use_upper = (x >= 1.0) & (x > a);
  const Num scale = prefactor(a, x);
  const Num enabled = !(p.wrong | p.x_is_zero | p.x_is_infinite | p.a_is_zero | (a == kInfinity));
  const Num at_least = enabled & (scale > 0.0);
  p.lower = series(a, x, at_least & !p.use_upper, false).v * scale / a;
  p.upper = fraction(a, x, at_least & p.use_upper, false).v * scale;
  p.lower = choose(at_least, p.lower, m.constant(0));
  p.upper = choose(at_least, p.upper, m.constant(0));
  return p;
}

/// The derivative by a of either the lower function or, divided by that by x, of samples.
Num by_a(Num a, Num x, bool of_sample) {
  Formula& m = *a.m;
  const Num wrong = (x < 0.0) | (a <= 0.0) | (a != a) | (x != x);
  const Num use_upper = (x > 1.0) & (x > a);
  const Num scale = prefactor(a, x);
  const Num enabled = (!(wrong | (x == 0.0) | (x == kInfinity))) & (scale > 0.0);
  const Dual low = series(a, x, enabled & !use_upper, true);
  const Dual high = fraction(a, x, enabled & use_upper, true);
  const Num log_x = log(x);
  const Num below = (low.v * (log_x - digamma(a + 1.0)) + low.d) / a;
  const Num above = -(high.v * (log_x - digamma(a)) + high.d);
  Num out = choose(use_upper, above, below);
  // The derivative by x is the prefactor over x.
  out = of_sample ? -out * x : out * scale;
  out = choose(enabled, out, m.constant(0));
  return choose(wrong, m.constant(kNan), out);
}

}  // namespace

Num gammainc(Num a, Num x) {
  Formula& m = *a.m;
  const Parts p = parts_of(a, x);
  Num out = choose(p.use_upper, 1.0 - p.upper, p.lower);
  out = choose(p.x_is_zero | (a == kInfinity), m.constant(0), out);
  out = choose(p.x_is_infinite | (p.a_is_zero & (x > 0.0)), m.constant(1), out);
  return choose(p.wrong, m.constant(kNan), out);
}

Num gammaincc(Num a, Num x) {
  Formula& m = *a.m;
  const Parts p = parts_of(a, x);
  Num out = choose(p.use_upper, p.upper, 1.0 - p.lower);
  out = choose(p.x_is_infinite | p.a_is_zero, m.constant(0), out);
  out = choose(p.x_is_zero | (a == kInfinity), m.constant(1), out);
  return choose(p.wrong, m.constant(kNan), out);
}

Num gammainc_by_a(Num a, Num x) { return by_a(a, x, false); }
Num gamma_sample_by_a(Num a, Num x) { return by_a(a, x, true); }

}  // namespace tessera::ir::formulas
