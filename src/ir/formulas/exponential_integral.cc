// SPDX-License-Identifier: Apache-2.0
// Exponential integrals and the dilogarithm, with the rational functions of Cephes.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/ir/formulas/special.h"

namespace tessera::ir::formulas {
namespace {

// Ei(x): numerators and denominators in x up to 2, in 1/x from there to 4, 8, 16, 32, 64 and
// beyond.
constexpr std::array<double, 6> kEiP1{-5.350447357812542947283e0, 2.185049168816613393830e2,
                                      -4.176572384826693777058e3, 5.541176756393557601232e4,
                                      -3.313381331178144034309e5, 1.592627163384945414220e6};
constexpr std::array<double, 7> kEiQ1{1.0,
                                      -5.250547959112862969197e1,
                                      1.259616186786790571525e3,
                                      -1.756549581973534652631e4,
                                      1.493062117002725991967e5,
                                      -7.294949239640527645655e5,
                                      1.592627163384945429726e6};
constexpr std::array<double, 8> kEiP2{1.981808503259689673238e-2,  -1.271645625984917501326e0,
                                      -2.088160335681228318920e0,  2.755544509187936721172e0,
                                      -4.409507048701600257171e-1, 4.665623805935891391017e-2,
                                      -1.545042679673485262580e-3, 7.059980605299617478514e-5};
constexpr std::array<double, 8> kEiQ2{1.0,
                                      1.476498670914921440652e0,
                                      5.629177174822436244827e-1,
                                      1.699017897879307263248e-1,
                                      2.291647179034212017463e-2,
                                      4.450150439728752875043e-3,
                                      1.727439612206521482874e-4,
                                      3.953167195549672482304e-5};
constexpr std::array<double, 8> kEiP3{-1.373215375871208729803e0, -7.084559133740838761406e-1,
                                      1.580806855547941010501e0,  -2.601500427425622944234e-1,
                                      2.994674694113713763365e-2, -1.038086040188744005513e-3,
                                      4.371064420753005429514e-5, 2.141783679522602903795e-6};
constexpr std::array<double, 9> kEiQ3{1.0,
                                      8.585231423622028380768e-1,
                                      4.483285822873995129957e-1,
                                      7.687932158124475434091e-2,
                                      2.449868241021887685904e-2,
                                      8.832165941927796567926e-4,
                                      4.590952299511353531215e-4,
                                      -4.729848351866523044863e-6,
                                      2.665195537390710170105e-6};
constexpr std::array<double, 10> kEiP4{-2.106934601691916512584e0,  1.732733869664688041885e0,
                                       -2.423619178935841904839e-1, 2.322724180937565842585e-2,
                                       2.372880440493179832059e-4,  -8.343219561192552752335e-5,
                                       1.363408795605250394881e-5,  -3.655412321999253963714e-7,
                                       1.464941733975961318456e-8,  6.176407863710360207074e-10};
constexpr std::array<double, 10> kEiQ4{1.0,
                                       -2.298062239901678075778e-1,
                                       1.105077041474037862347e-1,
                                       -1.566542966630792353556e-2,
                                       2.761106850817352773874e-3,
                                       -2.089148012284048449115e-4,
                                       1.708528938807675304186e-5,
                                       -4.459311796356686423199e-7,
                                       1.394634930353847498145e-8,
                                       6.150865933977338354138e-10};
constexpr std::array<double, 8> kEiP5{-2.458119367674020323359e-1, -1.483382253322077687183e-1,
                                      7.248291795735551591813e-2,  -1.348315687380940523823e-2,
                                      1.342775069788636972294e-3,  -7.942465637159712264564e-5,
                                      2.644179518984235952241e-6,  -4.239473659313765177195e-8};
constexpr std::array<double, 9> kEiQ5{1.0,
                                      -1.044225908443871106315e-1,
                                      -2.676453128101402655055e-1,
                                      9.695000254621984627876e-2,
                                      -1.601745692712991078208e-2,
                                      1.496414899205908021882e-3,
                                      -8.462452563778485013756e-5,
                                      2.728938403476726394024e-6,
                                      -4.239462431819542051337e-8};
constexpr std::array<double, 6> kEiP6{1.212561118105456670844e-1, -5.823133179043894485122e-1,
                                      2.348887314557016779211e-1, -3.040034318113248237280e-2,
                                      1.510082146865190661777e-3, -2.523137095499571377122e-5};
constexpr std::array<double, 6> kEiQ6{1.0,
                                      -1.002252150365854016662e0,
                                      2.928709694872224144953e-1,
                                      -3.337004338674007801307e-2,
                                      1.560544881127388842819e-3,
                                      -2.523137093603234562648e-5};
constexpr std::array<double, 9> kEiP7{
    -7.657847078286127362028e-1, 6.886192415566705051750e-1,  -2.132598113545206124553e-1,
    3.346107552384193813594e-2,  -3.076541477344756050249e-3, 1.747119316454907477380e-4,
    -6.103711682274170530369e-6, 1.218032765428652199087e-7,  -1.086076102793290233007e-9};
constexpr std::array<double, 10> kEiQ7{1.0,
                                       -1.888802868662308731041e0,
                                       1.066691687211408896850e0,
                                       -2.751915982306380647738e-1,
                                       3.930852688233823569726e-2,
                                       -3.414684558602365085394e-3,
                                       1.866844370703555398195e-4,
                                       -6.345146083130515357861e-6,
                                       1.239754287483206878024e-7,
                                       -1.086076102793126632978e-9};
// The dilogarithm near 1.
constexpr std::array<double, 8> kSpenceP{4.65128586073990045278E-5, 7.31589045238094711071E-3,
                                         1.33847639578309018650E-1, 8.79691311754530315341E-1,
                                         2.71149851196553469920E0,  4.25697156008121755724E0,
                                         3.29771340985225106936E0,  1.00000000000000000126E0};
constexpr std::array<double, 8> kSpenceQ{6.90990488912553276999E-4, 2.54043763932544379113E-2,
                                         2.82974860602568089943E-1, 1.41172597751831069617E0,
                                         3.63800533345137075418E0,  5.03278880143316990390E0,
                                         3.54771340985225096217E0,  9.99999999999999998740E-1};

Num ratio(Num x, std::span<const double> p, std::span<const double> q) {
  return x.m->polynomial(x, p) / x.m->polynomial(x, q);
}

/// Ei of x > 0.
Num expi_positive(Num x) {
  Formula& m = *x.m;
  const Num near = choose(x < 2.0, x, m.constant(1));
  const Num low = near * ratio(near, kEiP1, kEiQ1) + std::numbers::egamma + log(near);
  const Num w = 1.0 / choose(x < 2.0, m.constant(2), x);
  Num f = ratio(w, kEiP7, kEiQ7);
  f = choose(x <= 64.0, ratio(w, kEiP6, kEiQ6), f);
  f = choose(x <= 32.0, ratio(w, kEiP5, kEiQ5), f);
  f = choose(x <= 16.0, ratio(w, kEiP4, kEiQ4), f);
  f = choose(x <= 8.0, ratio(w, kEiP3, kEiQ3), f);
  f = choose(x <= 4.0, ratio(w, kEiP2, kEiQ2), f);
  const Num high = exp(x) * w * (w * f + 1.0);
  return choose(x < 2.0, low, choose(x == kInfinity, kInfinity, high));
}

}  // namespace

Num expn(Num n, Num x) {
  Formula& m = *x.m;
  // Beyond 1 a continued fraction, of so many levels that it has converged at 1.
  const Num far = choose(x > 1.0, x, m.constant(2));
  const int levels = m.wide() ? 90 : 24;
  Num tail = far + n + 2.0 * levels;
  for (int k = levels; k > 0; --k) {
    tail = far + n + 2.0 * (k - 1) - double(k) * (n + double(k - 1)) / tail;
  }
  const Num high = exp(-far) / tail;
  // Up to 1 the power series, whose term n - 1 has a logarithm.
  const Num near = choose(x > 1.0, m.constant(1), x);
  Num power = m.constant(1), sum = m.constant(0);
  const int terms = m.wide() ? 20 : 13;
  for (int k = 0; k < terms; ++k) {
    if (k > 0) power = power * near * (-1.0 / k);
    const Num gap = double(k) + 1.0 - n;
    sum = sum + choose(gap == 0.0, m.constant(0), power / choose(gap == 0.0, m.constant(1), gap));
  }
  const Num order = choose(n < 1.0, m.constant(1), n);
  const Num size = exp((order - 1.0) * log(near) - lgamma(order));
  const Num whole = (order - 1.0) * 0.5;
  const Num sign = choose(whole == floor(whole), m.constant(1), m.constant(-1));
  const Num singular = sign * choose(order == 1.0, m.constant(1), size);
  const Num low = singular * (digamma(order) - log(near)) - sum;
  Num out = choose(x > 1.0, high, low);
  out = choose(n == 0.0, exp(-x) / x, out);
  const Num at_zero =
      choose(n > 1.0, 1.0 / (choose(n > 1.0, n, m.constant(2)) - 1.0), m.constant(kInfinity));
  out = choose(x == 0.0, at_zero, out);
  out = choose(x == kInfinity, m.constant(0), out);
  return choose((n < 0.0) | (x < 0.0) | (x != x) | (n != floor(n)), m.constant(kNan), out);
}

Num expi(Num x) {
  Formula& m = *x.m;
  const Num negative = x < 0.0, size = abs(x);
  const Num below = -expn(m.constant(1), choose(negative, size, m.constant(1)));
  const Num above = expi_positive(choose(negative, m.constant(1), x));
  const Num out = choose(negative, below, above);
  return choose(x == 0.0, -kInfinity, out);
}

Num spence(Num x) {
  Formula& m = *x.m;
  const Num inverted = x > 2.0;
  const Num z = choose(inverted, 1.0 / x, x);
  const Num large = z > 1.5, small = z < 0.5;
  const Num w = choose(large, 1.0 / z - 1.0, choose(small, -z, z - 1.0));
  const Num y = -w * ratio(w, kSpenceP, kSpenceQ);
  const double limit = std::numbers::pi * std::numbers::pi / 6;
  const Num log_z = log(z);
  const Num mirrored = choose(small, limit - log_z * log1p(-z) - y, y);
  Num out = choose(inverted | large, -0.5 * log_z * log_z - mirrored, mirrored);
  out = choose(x == 1.0, m.constant(0), out);
  out = choose(x == 0.0, m.constant(limit), out);
  return choose(x < 0.0, m.constant(kNan), out);
}

}  // namespace tessera::ir::formulas
