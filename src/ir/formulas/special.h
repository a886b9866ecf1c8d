// SPDX-License-Identifier: Apache-2.0
// Special functions as formulas, in f32 or f64.
#pragma once

#include "src/ir/formulas/formula.h"

namespace tessera::ir::formulas {

/// log |gamma(x)|; infinite at 0 and the negative integers.
Num lgamma(Num x);
Num digamma(Num x);
/// Hurwitz' zeta function: the sum of (q + k)^-x.
Num zeta(Num x, Num q);
/// The n-th derivative of digamma.
Num polygamma(Num n, Num x);
/// exp(-|x|) I0(x) and exp(-|x|) I1(x).
Num bessel_i0e(Num x);
Num bessel_i1e(Num x);
Num erfc(Num x);
Num erf_inv(Num x);
/// exp(x^2) erfc(x).
Num erfcx(Num x);
/// The distribution function of the normal distribution, its logarithm and its inverse.
Num ndtr(Num x);
Num log_ndtr(Num x);
Num ndtri(Num p);
/// log |beta(a, b)|.
Num betaln(Num a, Num b);
/// The integral of exp(-x t) / t^n over t from 1, of whole n.
Num expn(Num n, Num x);
/// The principal value of the integral of exp(t) / t over t up to x.
Num expi(Num x);
/// The integral of log(t) / (1 - t) over t from 1 to x.
Num spence(Num x);
/// The regularized incomplete gamma functions, of which the sum is 1, and the derivative of the
/// lower one by a.
Num gammainc(Num a, Num x);
Num gammaincc(Num a, Num x);
Num gammainc_by_a(Num a, Num x);
/// The derivative by a of samples x of the gamma distribution.
Num gamma_sample_by_a(Num a, Num x);
/// The regularized incomplete beta function.
Num betainc(Num a, Num b, Num x);

}  // namespace tessera::ir::formulas
