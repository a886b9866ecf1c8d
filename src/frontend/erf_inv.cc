// SPDX-License-Identifier: Apache-2.0
// The inverse of erf, by the polynomials of M. Giles (Approximating the erfinv function).
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "src/frontend/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using internal::impl_of;

namespace {

// Highest powers first; `near`: of u around 0, `tail`: of |u| close to 1.
constexpr std::array<double, 9> kNear32{2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                        -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                        -0.00417768164,  0.246640727,    1.50140941};
constexpr std::array<double, 9> kTail32{-0.000200214257, 0.000100950558, 0.00134934322,
                                        -0.00367342844,  0.00573950773,  -0.0076224613,
                                        0.00943887047,   1.00167406,     2.83297682};
constexpr std::array<double, 23> kNear64{
    -3.6444120640178197e-21, -1.6850591381820166e-19, 1.28584807152564e-18,
    1.1157877678025181e-17,  -1.3331716628546209e-16, 2.0972767875968562e-17,
    6.6376381343583238e-15,  -4.0545662729752069e-14, -8.1519341976054722e-14,
    2.6335093153082323e-12,  -1.2975133253453532e-11, -5.4154120542946279e-11,
    1.0512122733215323e-09,  -4.1126339803469837e-09, -2.9070369957882005e-08,
    4.2347877827932404e-07,  -1.3654692000834679e-06, -1.3882523362786469e-05,
    0.00018673420803405714,  -0.00074070253416626698, -0.0060336708714301491,
    0.24015818242558962,     1.6536545626831027};
constexpr std::array<double, 19> kMiddle64{
    2.2137376921775787e-09, 9.0756561938885391e-08, -2.7517406297064545e-07,
    1.8239629214389228e-08, 1.5027403968909828e-06, -4.013867526981546e-06,
    2.9234449089955446e-06, 1.2475304481671779e-05, -4.7318229009055734e-05,
    6.8284851459573175e-05, 2.4031110387097894e-05, -0.00035503752036284748,
    0.0009532893797373805,  -0.0016882755560235047, 0.0024914420961078508,
    -0.0037512085075692412, 0.0053709145535900636,  1.0052589676941592,
    3.0838856104922208};
constexpr std::array<double, 17> kTail64{
    -2.7109920616438573e-11, -2.5556418169965252e-10, 1.5076572693500548e-09,
    -3.789465440126737e-09,  7.6157012080783394e-09,  -1.496002662714924e-08,
    2.9147953450901081e-08,  -6.7711997758452339e-08, 2.2900482228026655e-07,
    -9.9298272942317003e-07, 4.5260625972231537e-06,  -1.9681778105531671e-05,
    7.5995277030017761e-05,  -0.00021503011930044477, -0.00013871931833623122,
    1.0103004648645344,      4.8499064014085844};

Located polynomial(const Located& s, std::span<const double> coefficients) {
  Located p = s.number(coefficients[0]);
  for (double c : coefficients.subspan(1)) p = p * s + c;
  return p;
}

Located inverse(const Located& u) {
  const Located w = -u.with(log1p(-(u * u)));
  Located p;
  if (u.dtype() == f64) {
    const Located root = u.with(sqrt(w));
    p = choose(
        w < 6.25, polynomial(w - 3.125, kNear64),
        choose(w < 16.0, polynomial(root - 3.25, kMiddle64), polynomial(root - 5.0, kTail64)));
  } else {
    // One polynomial in one variable: both have the same degree.
    const Located near = w < 5.0;
    const Located s = choose(near, w - 2.5, u.with(sqrt(w)) - 3.0);
    p = choose(near, s.number(kNear32[0]), s.number(kTail32[0]));
    for (std::size_t i = 1; i < kNear32.size(); ++i) {
      p = p * s + choose(near, s.number(kNear32[i]), s.number(kTail32[i]));
    }
  }
  const Located end = u.with(abs(u)) == 1.0;
  return choose(end, u * std::numeric_limits<double>::infinity(), p * u);
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
