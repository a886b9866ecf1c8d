// SPDX-License-Identifier: Apache-2.0
// The inverse of erf, by polynomials.
#include <cmath>
#include <limits>
#include <span>

#include "src/base/erf_inv_coefficients.h"
#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using internal::impl_of;

namespace {

Located polynomial(const Located& s, std::span<const double> coefficients) {
  Located p = s.constant(coefficients[0]);
  for (double c : coefficients.subspan(1)) p = p * s + c;
  return p;
}

Located inverse(const Located& u) {
  const Located w = -u.with(log1p(-(u * u)));
  Located p;
  if (u.dtype() == f64) {
    // Where the root isn't used it is that of 1: derivatives of roots at 0 are not finite.
    const Located near = w < 6.25;
    const Located root = u.with(sqrt(choose(near, w.constant(1.0), w)));
    p = choose(near, polynomial(w - 3.125, erf_inv_coefficients::kNear64),
               choose(w < 16.0, polynomial(root - 3.25, erf_inv_coefficients::kMiddle64),
                      polynomial(root - 5.0, erf_inv_coefficients::kTail64)));
  } else {
    // Both polynomials have the same degree: one evaluation with selected coefficients and
    // variable.
    const Located near = w < 5.0;
    const Located root = u.with(sqrt(choose(near, w.constant(1.0), w)));  // as above
    const Located s = choose(near, w - 2.5, root - 3.0);
    p = choose(near, s.constant(erf_inv_coefficients::kNear32[0]),
               s.constant(erf_inv_coefficients::kTail32[0]));
    for (std::size_t i = 1; i < erf_inv_coefficients::kNear32.size(); ++i) {
      p = p * s + choose(near, s.constant(erf_inv_coefficients::kNear32[i]),
                         s.constant(erf_inv_coefficients::kTail32[i]));
    }
  }
  const Located end = u.with(abs(u)) == 1.0;
  // Of the sign, so that derivatives elsewhere don't meet the infinity.
  return choose(end, u.with(sign(u)) * std::numeric_limits<double>::infinity(), p * u);
}

}  // namespace

Array erf_inv(Operand x) {
  const DType t = frontend::to_inexact(impl_of(x.array, x.location).shape.dtype);
  if (is_complex(t)) {
    throw DTypeError("erf_inv of complex numbers (" + x.array.type_string() + ")", x.location);
  }
  const bool weak = x.array.weak_type();
  return composed("erf_inv", x.location, [&] {
    const DType work = t == f64 ? f64 : f32;
    const Located u{frontend::converted(x.array, work, x.location), x.location};
    return frontend::converted(inverse(u).array, t, x.location, weak);
  });
}

}  // namespace tessera
