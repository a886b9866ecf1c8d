// SPDX-License-Identifier: Apache-2.0
// The complementary error function, the normal distribution, and inverses.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/base/arrays/erf_inv_coefficients.h"
#include "src/ir/formulas/special.h"

namespace tessera::ir::formulas {
namespace {

// erfc(x) exp(x^2) from 1 on, as in Cephes: in 1/x^2 for f32, rational in x for f64.
constexpr std::array<double, 9> kErfcNear32{
    2.326819970068386E-2,  -1.387039388740657E-1, 3.687424674597105E-1,
    -5.824733027278666E-1, 6.210004621745983E-1,  -4.944515323274145E-1,
    3.404879937665872E-1,  -2.741127028184656E-1, 5.638259427386472E-1};
constexpr std::array<double, 8> kErfcFar32{
    -1.047766399936249E+1, 1.297719955372516E+1, -7.495518717768503E+0, 2.921019019210786E+0,
    -1.015265279202700E+0, 4.218463358204948E-1, -2.820767439740514E-1, 5.641895067754075E-1};
constexpr std::array<double, 9> kErfcP{
    2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
    4.86371970985681366614E1,   1.96520832956077098242E2,  5.26445194995477358631E2,
    9.34528527171957607540E2,   1.02755188689515710272E3,  5.57535335369399327526E2};
constexpr std::array<double, 9> kErfcQ{1.0,
                                       1.32281951154744992508E1,
                                       8.67072140885989742329E1,
                                       3.54937778887819891062E2,
                                       9.75708501743205489753E2,
                                       1.82390916687909736289E3,
                                       2.24633760818710981792E3,
                                       1.65666309194161350182E3,
                                       5.57535340817727675546E2};
constexpr std::array<double, 6> kErfcR{5.64189583547755073984E-1, 1.27536670759978104416E0,
                                       5.01905042251180477414E0,  6.16021097993053585195E0,
                                       7.40974269950448939160E0,  2.97886665372100240670E0};
constexpr std::array<double, 7> kErfcS{1.0,
                                       2.26052863220117276590E0,
                                       9.39603524938001434673E0,
                                       1.20489539808096656605E1,
                                       1.70814450747565897222E1,
                                       9.60896809063285878198E0,
                                       3.36907645100081516050E0};

}  // namespace

namespace {

/// erfc(x) exp(x^2) of x >= 1.
Num scaled_erfc(Num x) {
  Formula& m = *x.m;
  if (m.wide()) {
    Num near = m.polynomial(x, kErfcP) / m.polynomial(x, kErfcQ);
    Num far = m.polynomial(x, kErfcR) / m.polynomial(x, kErfcS);
    return choose(x < 8.0, near, far);
  }
  Num q = 1.0 / x;
  Num q2 = q * q;
  return q * choose(x < 2.0, m.polynomial(q2, kErfcNear32), m.polynomial(q2, kErfcFar32));
}

}  // namespace

Num erfc(Num x) {
  Formula& m = *x.m;
  Num magnitude = abs(x);
  Num square = x * x;
  Num y = exp(-square) * scaled_erfc(magnitude);
  if (m.wide()) y = choose(square > 709.782712893384, m.constant(0), y);
  Num outside = choose(x < 0.0, 2.0 - y, y);
  return choose(magnitude < 1.0, 1.0 - m.unary(Opcode::erf, x), outside);
}

Num erfcx(Num x) {
  Formula& m = *x.m;
  Num magnitude = abs(x);
  Num scale = exp(x * x);
  // Powers of larger numbers would be infinite.
  Num far = 1.0 / (magnitude * std::sqrt(std::numbers::pi));
  Num y = choose(magnitude > 1e8, far, scaled_erfc(magnitude));
  Num outside = choose(x < 0.0, 2.0 * scale - y, y);
  return choose(magnitude < 1.0, scale * (1.0 - m.unary(Opcode::erf, x)), outside);
}

Num ndtr(Num x) {
  // Half of erfc: the smaller side is accurate, the larger one is 1 minus it.
  Num w = x * -std::numbers::sqrt2 * 0.5;
  return 0.5 * erfc(w);
}

Num log_ndtr(Num x) {
  Num w = x * -(std::numbers::sqrt2 * 0.5);
  // Where ndtr is small, by the scaled function; where it is near 1, by the other side.
  Num low = log(0.5 * erfcx(choose(x < -1.0, w, w * 0))) - 0.5 * x * x;
  Num high = log1p(-0.5 * erfc(-w));
  return choose(x < -1.0, low, high);
}

namespace {

// Of w = p - 1/2, and of 1/z with z = sqrt(-2 log p) below and above 8, as in Cephes.
constexpr std::array<double, 5> kNdtriP0{-5.99633501014107895267E1, 9.80010754185999661536E1,
                                         -5.66762857469070293439E1, 1.39312609387279679503E1,
                                         -1.23916583867381258016E0};
constexpr std::array<double, 9> kNdtriQ0{1.0,
                                         1.95448858338141759834E0,
                                         4.67627912898881538453E0,
                                         8.63602421390890590575E1,
                                         -2.25462687854119370527E2,
                                         2.00260212380060660359E2,
                                         -8.20372256168333339912E1,
                                         1.59056225126211695515E1,
                                         -1.18331621121330003142E0};
constexpr std::array<double, 9> kNdtriP1{
    4.05544892305962419923E0,   3.15251094599893866154E1,   5.71628192246421288162E1,
    4.40805073893200834700E1,   1.46849561928858024014E1,   2.18663306850790267539E0,
    -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4};
constexpr std::array<double, 9> kNdtriQ1{1.0,
                                         1.57799883256466749731E1,
                                         4.53907635128879210584E1,
                                         4.13172038254672030440E1,
                                         1.50425385692907503408E1,
                                         2.50464946208309415979E0,
                                         -1.42182922854787788574E-1,
                                         -3.80806407691578277194E-2,
                                         -9.33259480895457427372E-4};
constexpr std::array<double, 9> kNdtriP2{
    3.23774891776946035970E0,  6.91522889068984211695E0,  3.93881025292474443415E0,
    1.33303460815807542389E0,  2.01485389549179081538E-1, 1.23716634817820021358E-2,
    3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9};
constexpr std::array<double, 9> kNdtriQ2{1.0,
                                         6.02427039364742014255E0,
                                         3.67983563856160859403E0,
                                         1.37702099489081330271E0,
                                         2.16236993594496635890E-1,
                                         1.34204006088543189037E-2,
                                         3.28014464682127739104E-4,
                                         2.89247864745380683936E-6,
                                         6.79019408009981274425E-9};

}  // namespace

Num ndtri(Num p) {
  Formula& m = *p.m;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double edge = std::exp(-2.0);
  // The upper tail is that of the other side.
  Num upper = p > 1 - edge;
  Num q = choose(upper, 1.0 - p, p);
  Num inside = q > edge;
  Num w = q - 0.5, w2 = w * w;
  Num middle = w + w * w2 * (m.polynomial(w2, kNdtriP0) / m.polynomial(w2, kNdtriQ0));
  middle = middle * std::sqrt(2 * std::numbers::pi);
  Num z = sqrt(-2.0 * log(choose(inside, m.constant(edge), q)));
  Num r = 1.0 / z;
  Num near = m.polynomial(r, kNdtriP1) / m.polynomial(r, kNdtriQ1);
  Num far = m.polynomial(r, kNdtriP2) / m.polynomial(r, kNdtriQ2);
  Num tail = r * choose(z >= 8.0, far, near) + log(z) * r - z;
  Num x = choose(inside, middle, choose(upper, -tail, tail));
  x = choose(p == 0.0, -kInfinity, x);
  x = choose(p == 1.0, kInfinity, x);
  return choose((p < 0.0) | (p > 1.0), m.constant(std::numeric_limits<double>::quiet_NaN()), x);
}

Num erf_inv(Num u) {
  Formula& m = *u.m;
  Num w = -log1p(-(u * u));
  Num p;
  if (m.wide()) {
    // Where the root isn't used it is that of 1: derivatives of roots at 0 are not finite.
    Num near = w < 6.25;
    Num root = sqrt(choose(near, m.constant(1), w));
    p = choose(near, m.polynomial(w - 3.125, erf_inv_coefficients::kNear64),
               choose(w < 16.0, m.polynomial(root - 3.25, erf_inv_coefficients::kMiddle64),
                      m.polynomial(root - 5.0, erf_inv_coefficients::kTail64)));
  } else {
    // One polynomial in one variable: both have the same degree.
    Num near = w < 5.0;
    Num s = choose(near, w - 2.5, sqrt(choose(near, m.constant(1), w)) - 3.0);  // as above
    p = choose(near, m.constant(erf_inv_coefficients::kNear32[0]),
               m.constant(erf_inv_coefficients::kTail32[0]));
    for (std::size_t i = 1; i < erf_inv_coefficients::kNear32.size(); ++i) {
      p = p * s + choose(near, m.constant(erf_inv_coefficients::kNear32[i]),
                         m.constant(erf_inv_coefficients::kTail32[i]));
    }
  }
  // Of the sign, so that derivatives elsewhere don't meet the infinity.
  return choose(abs(u) == 1.0, sign(u) * std::numeric_limits<double>::infinity(), p * u);
}

}  // namespace tessera::ir::formulas
