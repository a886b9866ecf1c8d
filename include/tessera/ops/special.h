// SPDX-License-Identifier: Apache-2.0
// Special functions.
#pragma once

#include <cstdint>

#include <tessera/array.h>

/// @file
/// Special functions of real numbers, elementwise, as in jax.scipy.special.
///
/// Operands broadcast, and are promoted as those of `sqrt`: integers become f32. f16, bf16 and
/// narrower floats are computed in f32 and rounded once. Outside of a function's domain the result
/// is NaN. All functions have derivatives of any order by formulas of their own, except where it
/// is said that they have none: there a derivative is a NotImplementedError.
///
/// @throws ShapeError if the shapes don't broadcast.
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera {

/// Logarithm of |gamma(x)|; infinite at 0 and the negative integers.
Array gammaln(Operand x);
/// Same as `gammaln`, under C's name.
Array lgamma(Operand x);
/// Sign of gamma(x), 1 or -1 (of 0: its sign); NaN at the negative integers.
Array gammasgn(Operand x);
/// The gamma function, which is (n - 1)! at integers n; infinite at 0, NaN at the negative
/// integers.
Array gamma(Operand x);
/// n! = gamma(n + 1); 0 for negative n.
Array factorial(Operand n);
/// The number of ways to choose k of n things, n! / (k! (n - k)!); 0 unless 0 <= k <= n.
Array comb(Operand n, Operand k);
/// Logarithmic derivative of gamma; NaN at 0 and the negative integers.
Array digamma(Operand x);
/// n-th derivative of `digamma`. No derivative by n.
/// @throws DTypeError if n isn't an array of integers.
Array polygamma(Operand n, Operand x);
/// Hurwitz' zeta function: the sum of (q + k)^-x over k = 0, 1, .., of x > 1. `zeta(x, 1)` is
/// Riemann's. No derivative by x.
Array zeta(Operand x, Operand q);
/// gamma(a) gamma(b) / gamma(a + b).
Array beta(Operand a, Operand b);
/// Logarithm of |beta(a, b)|.
Array betaln(Operand a, Operand b);
/// Regularized incomplete beta function: the integral of t^(a-1) (1-t)^(b-1) over [0, x], divided
/// by beta(a, b). No derivative by a and b.
Array betainc(Operand a, Operand b, Operand x);
/// Regularized lower incomplete gamma function: the integral of t^(a-1) exp(-t) over [0, x],
/// divided by gamma(a). The derivative by a has no derivative.
Array gammainc(Operand a, Operand x);
/// Regularized upper incomplete gamma function, 1 - gammainc(a, x), accurate where that is near 1.
Array gammaincc(Operand a, Operand x);
/// Logarithm of the multivariate gamma function of dimension d.
/// @throws ValueError if d < 1.
Array multigammaln(Operand a, std::int64_t d);

/// Complementary error function, 1 - erf(x), accurate where erf(x) is near 1.
Array erfc(Operand x);
/// exp(x^2) erfc(x), which stays finite for large x.
Array erfcx(Operand x);
/// Distribution function of the normal distribution: the probability of a number below x.
Array ndtr(Operand x);
/// Logarithm of `ndtr`, accurate in both tails.
Array log_ndtr(Operand x);
/// Inverse of `ndtr`: infinite at 0 and 1, NaN beyond.
Array ndtri(Operand p);

/// Modified Bessel function of the first kind of order 0.
Array i0(Operand x);
/// exp(-|x|) i0(x).
Array i0e(Operand x);
/// Modified Bessel function of the first kind of order 1.
Array i1(Operand x);
/// exp(-|x|) i1(x).
Array i1e(Operand x);
/// Bessel functions of the first kind of orders 0 to v, by downward recurrence from order
/// `iterations` in f64: x [..] -> [v + 1, ..]. As in JAX, exact enough while |x| is below half of
/// `iterations`, and NaN at 0.
/// @throws ValueError unless 0 <= v <= iterations.
Array bessel_jn(Operand x, std::int64_t v, std::int64_t iterations = 50);

/// x log(y); 0 where x = 0 and y isn't NaN.
Array xlogy(Operand x, Operand y);
/// x log(1 + y); 0 where x = 0 and y isn't NaN.
Array xlog1py(Operand x, Operand y);
/// Entropy, -x log(x): 0 at 0, -inf for negative numbers.
Array entr(Operand x);
/// Relative entropy, p log(p / q): 0 where p = 0 and q >= 0, infinite for other numbers that aren't
/// positive.
Array rel_entr(Operand p, Operand q);
/// Kullback-Leibler divergence, rel_entr(p, q) - p + q.
Array kl_div(Operand p, Operand q);
/// log(x / (1 - x)), the inverse of `sigmoid`.
Array logit(Operand x);
/// 1 / (1 + exp(-x)); same as `sigmoid`.
Array expit(Operand x);
/// (x^l - 1) / l, the transformation of Box and Cox; log(x) where l = 0.
Array boxcox(Operand x, Operand l);
/// ((1 + x)^l - 1) / l; log(1 + x) where l = 0.
Array boxcox1p(Operand x, Operand l);
/// (exp(x) - 1) / x, which is 1 at 0.
Array exprel(Operand x);
/// sin(pi x) / (pi x), which is 1 at 0.
Array sinc(Operand x);

/// Exponential integral of order n: the integral of exp(-x t) / t^n over [1, inf), of whole n >= 0
/// and x >= 0. No derivative by n.
Array expn(Operand n, Operand x);
/// Exponential integral of order 1.
Array exp1(Operand x);
/// Exponential integral Ei: the principal value of the integral of exp(t) / t over (-inf, x].
Array expi(Operand x);
/// Spence's function, the dilogarithm of 1 - x: the integral of log(t) / (1 - t) over [1, x].
Array spence(Operand x);

}  // namespace tessera
