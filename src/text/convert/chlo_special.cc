// SPDX-License-Identifier: Apache-2.0
// Special functions as formulas.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/base/erf_inv_coefficients.h"
#include "src/text/convert/chlo_math.h"

namespace tessera::text {
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

// Chebyshev series of exp(-|x|) I1(x): of x in [0, 8], and beyond. f32 needs their ends only.
constexpr std::array<double, 29> kBesselNear{
    2.77791411276104639959E-18,  -2.11142121435816608115E-17, 1.55363195773620046921E-16,
    -1.10559694773538630805E-15, 7.60068429473540693410E-15,  -5.04218550472791168711E-14,
    3.22379336594557470981E-13,  -1.98397439776494371520E-12, 1.17361862988909016308E-11,
    -6.66348972350202774223E-11, 3.62559028155211703701E-10,  -1.88724975172282928790E-9,
    9.38153738649577178388E-9,   -4.44505912879632808065E-8,  2.00329475355213526229E-7,
    -8.56872026469545474066E-7,  3.47025130813767847674E-6,   -1.32731636560394358279E-5,
    4.78156510755005422638E-5,   -1.61760815825896745588E-4,  5.12285956168575772895E-4,
    -1.51357245063125314899E-3,  4.15642294431288815669E-3,   -1.05640848946261981558E-2,
    2.47264490306265168283E-2,   -5.29459812080949914269E-2,  1.02643658689847095384E-1,
    -1.76416518357834055153E-1,  2.52587186443633654823E-1};
constexpr std::array<double, 25> kBesselFar{
    7.51729631084210481353E-18,  4.41434832307170791151E-18,  -4.65030536848935832153E-17,
    -3.20952592199342395980E-17, 2.96262899764595013876E-16,  3.30820231092092828324E-16,
    -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14,
    4.27244001671195135429E-14,  -2.10154184277266431302E-14, -4.08355111109219731823E-13,
    -7.19855177624590851209E-13, 2.03562854414708950722E-12,  1.41258074366137813316E-11,
    3.25260358301548823856E-11,  -1.89749581235054123450E-11, -5.58974346219658380687E-10,
    -3.83538038596423702205E-9,  -2.63146884688951950684E-8,  -2.51223623787020892529E-7,
    -3.88256480887769039346E-6,  -1.10588938762623716291E-4,  -9.76109749136146840777E-3,
    7.78576235018280120474E-1};

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

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

}  // namespace

Num ChloMath::lgamma(Num x) {
  // lgamma(z + 1) = log(2 pi) / 2 + (z + 1/2) log t - t + log a, t = z + g + 1/2; below 1/2 by
  // Euler's reflection.
  Num reflect = x < 0.5;
  Num z = choose(reflect, -x, x - 1.0);
  Num a = constant(kLanczosBase);
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
  return choose(magnitude == kInfinity, constant(kInfinity), result);
}

Num ChloMath::digamma(Num x) {
  Num reflect = x < 0.5;
  Num z = choose(reflect, -x, x - 1.0);
  Num a = constant(kLanczosBase), slope = constant(0);
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
  return choose(pole, constant(kNan), result);
}

Num ChloMath::zeta(Num x, Num q) {
  // Ten terms of the sum, then Euler and Maclaurin's formula for the rest.
  constexpr int kTerms = 9;
  Num a = q, power = pow(q, -x), sum = power;
  for (int k = 0; k < kTerms; ++k) {
    a = a + 1.0;
    power = pow(a, -x);
    sum = sum + power;
  }
  Num inverse = 1.0 / (a * a);
  Num tail = constant(1 / kZeta.back());
  for (std::size_t k = kZeta.size() - 1; k > 0; --k) {
    Num factor = (x + double(2 * k - 1)) * (x + double(2 * k)) * inverse;
    tail = tail * factor + 1 / kZeta[k - 1];
  }
  Num s = sum + power * a / (x - 1.0) - 0.5 * power + power * x / a * tail;
  double epsilon = wide() ? std::numeric_limits<double>::epsilon()
                          : double(std::numeric_limits<float>::epsilon());
  s = choose(abs(power) < abs(sum) * epsilon, sum, s);
  Num even = (x == floor(x)) & (x * 0.5 == floor(x * 0.5));
  Num pole = choose(even, constant(kInfinity), constant(kNan));
  Num q_whole = q == floor(q), x_whole = x == floor(x);
  s = choose(q <= 0.0, choose(q_whole, pole, choose(x_whole, s, constant(kNan))), s);
  s = choose(x < 1.0, constant(kNan), s);
  return choose(x == 1.0, constant(kInfinity), s);
}

Num ChloMath::polygamma(Num n, Num x) {
  Num sign = choose(n * 0.5 == floor(n * 0.5), constant(-1), constant(1));
  Num next = n + 1.0;
  Num result = sign * exp(lgamma(next)) * zeta(next, x);
  result = choose(n == 0.0, digamma(x), result);
  return choose((n == floor(n)) & (n >= 0.0), result, constant(kNan));
}

Num ChloMath::chebyshev(Num x, std::span<const double> coefficients) {
  Num b0 = constant(coefficients[0]), b1 = constant(0), b2 = constant(0);
  for (double c : coefficients.subspan(1)) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + c;
  }
  return 0.5 * (b0 - b2);
}

Num ChloMath::bessel_i1e(Num x) {
  std::span<const double> near(kBesselNear), far(kBesselFar);
  if (!wide()) {
    near = near.last(17);
    far = far.last(7);
  }
  Num z = abs(x);
  Num inside = chebyshev(z * 0.5 - 2.0, near) * z;
  Num outside = chebyshev(32.0 / z - 2.0, far) / sqrt(z);
  return unary(ir::Opcode::sign, x) * choose(z <= 8.0, inside, outside);
}

Num ChloMath::erfc(Num x) {
  Num magnitude = abs(x);
  Num square = x * x;
  Num scale = exp(-square);
  Num y;
  if (wide()) {
    Num near = polynomial(magnitude, kErfcP) / polynomial(magnitude, kErfcQ);
    Num far = polynomial(magnitude, kErfcR) / polynomial(magnitude, kErfcS);
    y = scale * choose(magnitude < 8.0, near, far);
    y = choose(square > 709.782712893384, constant(0), y);
  } else {
    Num q = 1.0 / magnitude;
    Num q2 = q * q;
    Num p = choose(magnitude < 2.0, polynomial(q2, kErfcNear32), polynomial(q2, kErfcFar32));
    y = scale * q * p;
  }
  Num outside = choose(x < 0.0, 2.0 - y, y);
  return choose(magnitude < 1.0, 1.0 - unary(ir::Opcode::erf, x), outside);
}

Num ChloMath::next_after(Num x, Num y) {
  DType integer = byte_size(dtype_) == 8   ? DType::s64
                  : byte_size(dtype_) == 4 ? DType::s32
                  : byte_size(dtype_) == 2 ? DType::s16
                                           : DType::s8;
  ChloMath ints(reader_, op_, integer, dims_);
  Num from = ints(bits(x, integer).i);
  // Away from zero the bits rise, towards it they fall.
  Num away = choose(x > 0.0, y > x, y < x);
  Num step = ints.select(ints(away.i), ints.constant(1), ints.constant(-1));
  Num moved = from + step;
  Num least = ints.constant(1);
  Num sign = ints.constant(-std::ldexp(1.0, int(byte_size(dtype_)) * 8 - 1));
  Num from_zero = ints.select(ints((y < 0.0).i), ints.binary(ir::Opcode::or_, sign, least), least);
  Num chosen = ints.select(ints((x == 0.0).i), from_zero, moved);
  Num result = (*this)(bits(chosen, dtype_).i);
  result = choose(x == y, y, result);
  return choose((x != x) | (y != y), constant(kNan), result);
}

Num ChloMath::erf_inv(Num u) {
  Num w = -log1p(-(u * u));
  Num p;
  if (wide()) {
    // Where the root isn't used it is that of 1: derivatives of roots at 0 are not finite.
    Num near = w < 6.25;
    Num root = sqrt(choose(near, constant(1), w));
    p = choose(near, polynomial(w - 3.125, erf_inv_coefficients::kNear64),
               choose(w < 16.0, polynomial(root - 3.25, erf_inv_coefficients::kMiddle64),
                      polynomial(root - 5.0, erf_inv_coefficients::kTail64)));
  } else {
    // One polynomial in one variable: both have the same degree.
    Num near = w < 5.0;
    Num s = choose(near, w - 2.5, sqrt(choose(near, constant(1), w)) - 3.0);  // as above
    p = choose(near, constant(erf_inv_coefficients::kNear32[0]),
               constant(erf_inv_coefficients::kTail32[0]));
    for (std::size_t i = 1; i < erf_inv_coefficients::kNear32.size(); ++i) {
      p = p * s + choose(near, constant(erf_inv_coefficients::kNear32[i]),
                         constant(erf_inv_coefficients::kTail32[i]));
    }
  }
  // Of the sign, so that derivatives elsewhere don't meet the infinity.
  return choose(abs(u) == 1.0, sign(u) * std::numeric_limits<double>::infinity(), p * u);
}

}  // namespace tessera::text
