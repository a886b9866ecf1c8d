// SPDX-License-Identifier: Apache-2.0
// The gamma function, its derivatives and Hurwitz' zeta function.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/ir/formulas/special.h"

namespace tessera::ir::formulas {
namespace {

// Lanczos' approximation of the gamma function with g = 7 and nine terms.
constexpr double kLanczosG = 7;
constexpr double kLanczosBase = 0.99999999999980993227684700473478;
constexpr std::array<double, 8> kLanczos{
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};

// (2k)! / B_2k of the Euler-Maclaurin sum, k = 1, 2, ...
constexpr std::array<double, 12> kZeta{12.0,
                                       -720.0,
                                       30240.0,
                                       -1209600.0,
                                       47900160.0,
                                       -1.8924375803183791606e9,
                                       7.47242496e10,
                                       -2.950130727918164224e12,
                                       1.1646782814350067249e14,
                                       -4.5979787224074726105e15,
                                       1.8152105401943546773e17,
                                       -7.1661652561756670113e18};

constexpr double kPi = std::numbers::pi;

}  // namespace

Num lgamma(Num x) {
  Formula& m = *x.m;
  // lgamma(z + 1) = log(2 pi) / 2 + (z + 1/2) log t - t + log a, t = z + g + 1/2; below 1/2 by
  // Euler's reflection.
  Num reflect = x < 0.5;
  Num z = choose(reflect, -x, x - 1.0);
  Num a = m.constant(kLanczosBase);
  for (std::size_t k = 0; k < kLanczos.size(); ++k) {
    a = a + kLanczos[k] / (z + double(k + 1));
  }
  Num t = z + (kLanczosG + 0.5);
  Num log_t = std::log(kLanczosG + 0.5) + log1p(z / (kLanczosG + 0.5));
  Num r = (z + 0.5 - t / log_t) * log_t;
  Num direct = r + (std::log(2 * kPi) / 2) + log(a);
  // sin(pi x) through the distance to the next integer, which is exact.
  Num magnitude = abs(x);
  Num fraction = magnitude - floor(magnitude);
  fraction = choose(fraction > 0.5, 1.0 - fraction, fraction);
  Num log_sin = log(sin(kPi * fraction));
  Num reflected = std::log(kPi) - log_sin - direct;
  // At the poles log sin is -inf.
  reflected = choose(abs(log_sin) < kInfinity, reflected, -log_sin);
  Num result = choose(reflect, reflected, direct);
  return choose(magnitude == kInfinity, m.constant(kInfinity), result);
}

Num digamma(Num x) {
  Formula& m = *x.m;
  Num reflect = x < 0.5;
  Num z = choose(reflect, -x, x - 1.0);
  Num a = m.constant(kLanczosBase), slope = m.constant(0);
  for (std::size_t k = 0; k < kLanczos.size(); ++k) {
    Num term = z + double(k + 1);
    slope = slope - kLanczos[k] / (term * term);
    a = a + kLanczos[k] / term;
  }
  Num t = z + (kLanczosG + 0.5);
  Num log_t = std::log(kLanczosG + 0.5) + log1p(z / (kLanczosG + 0.5));
  Num direct = log_t + slope / a - kLanczosG / t;
  // digamma(x) = digamma(1 - x) - pi / tan(pi x)
  Num angle = kPi * (x - floor(x + 0.5));
  Num reflected = direct - kPi * cos(angle) / sin(angle);
  Num result = choose(reflect, reflected, direct);
  Num pole = (x <= 0.0) & (x == floor(x));
  return choose(pole, m.constant(kNan), result);
}

Num zeta(Num x, Num q) {
  Formula& m = *x.m;
  // Ten terms of the sum, then Euler and Maclaurin's formula for the rest.
  constexpr int kTerms = 9;
  Num a = q, power = pow(q, -x), sum = power;
  for (int k = 0; k < kTerms; ++k) {
    a = a + 1.0;
    power = pow(a, -x);
    sum = sum + power;
  }
  Num inverse = 1.0 / (a * a);
  Num tail = m.constant(1 / kZeta.back());
  for (std::size_t k = kZeta.size() - 1; k > 0; --k) {
    Num factor = (x + double(2 * k - 1)) * (x + double(2 * k)) * inverse;
    tail = tail * factor + 1 / kZeta[k - 1];
  }
  Num s = sum + power * a / (x - 1.0) - 0.5 * power + power * x / a * tail;
  double epsilon = m.wide() ? std::numeric_limits<double>::epsilon()
                            : double(std::numeric_limits<float>::epsilon());
  s = choose(abs(power) < abs(sum) * epsilon, sum, s);
  Num even = (x == floor(x)) & (x * 0.5 == floor(x * 0.5));
  Num pole = choose(even, m.constant(kInfinity), m.constant(kNan));
  Num q_whole = q == floor(q), x_whole = x == floor(x);
  s = choose(q <= 0.0, choose(q_whole, pole, choose(x_whole, s, m.constant(kNan))), s);
  s = choose(x < 1.0, m.constant(kNan), s);
  return choose(x == 1.0, m.constant(kInfinity), s);
}

Num polygamma(Num n, Num x) {
  Formula& m = *n.m;
  Num sign = choose(n * 0.5 == floor(n * 0.5), m.constant(-1), m.constant(1));
  Num next = n + 1.0;
  Num result = sign * exp(lgamma(next)) * zeta(next, x);
  result = choose(n == 0.0, digamma(x), result);
  return choose((n == floor(n)) & (n >= 0.0), result, m.constant(kNan));
}

}  // namespace tessera::ir::formulas
