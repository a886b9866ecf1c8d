// SPDX-License-Identifier: Apache-2.0
// The gamma and beta functions, Bessel functions and exponential integrals.
#include <tessera/ops/special.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::call_special;
using frontend::choose;
using frontend::composed;
using frontend::inexact_operands;
using frontend::Located;
using frontend::SpecialFunction;
using ir::Num;

namespace {

using Xs = std::vector<Located>;
using Nums = std::vector<Num>;
namespace formulas = ir::formulas;

/// A special function of operands that are located already.
Located of(Array (*f)(Operand), const Located& x) { return x.with(f(x)); }
Located of(Array (*f)(Operand, Operand), const Located& x, const Located& y) {
  return x.with(f(x, y));
}

SpecialFunction unary(const char* name, Num (*formula)(Num), SpecialFunction::Partial partial) {
  return {name, [formula](const Nums& x) { return formula(x[0]); }, {std::move(partial)}};
}
SpecialFunction binary(const char* name, Num (*formula)(Num, Num), SpecialFunction::Partial first,
                       SpecialFunction::Partial second) {
  return {name,
          [formula](const Nums& x) { return formula(x[0], x[1]); },
          {std::move(first), std::move(second)}};
}

}  // namespace

Array gammaln(Operand x) {
  static const SpecialFunction f = unary(
      "gammaln", formulas::lgamma, [](const Xs& v, const Located&) { return of(digamma, v[0]); });
  return call_special(f, {x});
}
Array lgamma(Operand x) { return gammaln(x); }

Array digamma(Operand x) {
  static const SpecialFunction f =
      unary("digamma", formulas::digamma, [](const Xs& v, const Located&) {
        return v[0].with(polygamma({Array(1), v[0].location}, v[0]));
      });
  return call_special(f, {x});
}

namespace {

/// polygamma of a float n.
Array polygamma_of(const Operand& n, const Operand& x) {
  static const SpecialFunction f =
      binary("polygamma", formulas::polygamma, nullptr,
             [](const Xs& v, const Located&) { return v[0].with(polygamma_of(v[0] + 1.0, v[1])); });
  return call_special(f, {n, x});
}

}  // namespace

Array polygamma(Operand n, Operand x) {
  const DType t = frontend::shape_of(n).dtype;
  if (!is_integer(t)) {
    throw DTypeError("polygamma: n is " + n.array.type_string() + "; valid are integers",
                     n.location);
  }
  return composed("polygamma", x.location, [&] { return polygamma_of(n, x); });
}

Array zeta(Operand x, Operand q) {
  static const SpecialFunction f =
      binary("zeta", formulas::zeta, nullptr,
             [](const Xs& v, const Located&) { return -v[0] * of(zeta, v[0] + 1.0, v[1]); });
  return call_special(f, {x, q});
}

Array gammasgn(Operand x) {
  return composed("gammasgn", x.location, [&] {
    const Located v = inexact_operands("gammasgn", {x})[0];
    const Located whole = v.with(floor(v)), half = whole * 0.5;
    const Located negative = v < 0.0, odd = half != v.with(floor(half));
    Located out =
        choose((negative & odd) | ((v == 0.0) & v.with(signbit(v))), v.constant(-1), v.constant(1));
    const Located none = (negative & (v == whole)) | (v != v);
    return choose(none, v.constant(std::numeric_limits<double>::quiet_NaN()), out).array;
  });
}

Array gamma(Operand x) {
  return composed("gamma", x.location, [&] {
    const Located v = inexact_operands("gamma", {x})[0];
    return (of(gammasgn, v) * v.with(exp(of(gammaln, v)))).array;
  });
}

Array factorial(Operand n) {
  return composed("factorial", n.location, [&] {
    const Located v = inexact_operands("factorial", {n})[0];
    return choose(v < 0.0, v.constant(0), v.with(exp(of(gammaln, v + 1.0)))).array;
  });
}

Array comb(Operand n, Operand k) {
  return composed("comb", frontend::where_of(n, k), [&] {
    const Xs v = inexact_operands("comb", {n, k});
    const Located fits = (v[1] <= v[0]) & (v[0] >= 0.0) & (v[1] >= 0.0), zero = v[0].constant(0);
    const Located a = choose(fits, v[0], zero), b = choose(fits, v[1], zero);
    const Located size = of(gammaln, a + 1.0) - of(gammaln, b + 1.0) - of(gammaln, a + 1.0 - b);
    return choose(fits, a.with(exp(size)), zero).array;
  });
}

Array betaln(Operand a, Operand b) {
  static const SpecialFunction f = binary(
      "betaln", formulas::betaln,
      [](const Xs& v, const Located&) { return of(digamma, v[0]) - of(digamma, v[0] + v[1]); },
      [](const Xs& v, const Located&) { return of(digamma, v[1]) - of(digamma, v[0] + v[1]); });
  return call_special(f, {a, b});
}

Array beta(Operand a, Operand b) {
  return composed("beta", frontend::where_of(a, b), [&] {
    const Xs v = inexact_operands("beta", {a, b});
    const Located sign = of(gammasgn, v[0]) * of(gammasgn, v[1]) * of(gammasgn, v[0] + v[1]);
    return (sign * v[0].with(exp(of(betaln, v[0], v[1])))).array;
  });
}

Array betainc(Operand a, Operand b, Operand x) {
  static const SpecialFunction f{"betainc",
                                 [](const Nums& v) { return formulas::betainc(v[0], v[1], v[2]); },
                                 {nullptr, nullptr, [](const Xs& v, const Located&) {
                                    const Located size = (v[1] - 1.0) * v[2].with(log1p(-v[2])) +
                                                         (v[0] - 1.0) * v[2].with(log(v[2])) -
                                                         of(betaln, v[0], v[1]);
                                    return size.with(exp(size));
                                  }}};
  return call_special(f, {a, b, x});
}

namespace {

Array gammainc_slope(const Operand& a, const Operand& x) {
  static const SpecialFunction f =
      binary("the derivative of gammainc by a", formulas::gammainc_by_a, nullptr, nullptr);
  return call_special(f, {a, x});
}
/// The derivative of gammainc by x.
Located gammainc_density(const Located& a, const Located& x) {
  const Located size = (a - 1.0) * x.with(log(x)) - x - of(gammaln, a);
  return size.with(exp(size));
}

}  // namespace

Array gammainc(Operand a, Operand x) {
  static const SpecialFunction f = binary(
      "gammainc", formulas::gammainc,
      [](const Xs& v, const Located&) { return v[0].with(gammainc_slope(v[0], v[1])); },
      [](const Xs& v, const Located&) { return gammainc_density(v[0], v[1]); });
  return call_special(f, {a, x});
}
Array gammaincc(Operand a, Operand x) {
  static const SpecialFunction f = binary(
      "gammaincc", formulas::gammaincc,
      [](const Xs& v, const Located&) { return -v[0].with(gammainc_slope(v[0], v[1])); },
      [](const Xs& v, const Located&) { return -gammainc_density(v[0], v[1]); });
  return call_special(f, {a, x});
}

Array multigammaln(Operand a, std::int64_t d) {
  if (d < 1) {
    throw ValueError("multigammaln of dimension " + std::to_string(d) + "; valid are 1 and more",
                     a.location);
  }
  return composed("multigammaln", a.location, [&] {
    const Located v = inexact_operands("multigammaln", {a})[0];
    const Located halves = v.with(frontend::converted(
        divide({arange(double(d), f32, v.location), v.location}, {Array(2.0f), v.location}),
        v.dtype(), v.location));
    const Located each = v.with(expand_dims(v, -1)) - halves;
    return (v.with(sum(of(gammaln, each), -1)) +
            0.25 * double(d) * double(d - 1) * std::log(std::numbers::pi))
        .array;
  });
}

// ------------------------------------------------------------------ Bessel functions

Array i0e(Operand x) {
  static const SpecialFunction f =
      unary("i0e", formulas::bessel_i0e,
            [](const Xs& v, const Located& y) { return of(i1e, v[0]) - of(sign, v[0]) * y; });
  return call_special(f, {x});
}
Array i1e(Operand x) {
  static const SpecialFunction f =
      unary("i1e", formulas::bessel_i1e, [](const Xs& v, const Located& y) {
        // 1/2 at 0, where the quotient isn't defined.
        const double least = v[0].dtype() == f64 ? 0x1p-52 : 0x1p-23;
        const Located away = v[0].with(abs(v[0])) > least;
        const Located safe = choose(away, v[0], v[0].constant(least));
        const Located slope = of(i0e, safe) - y * (of(sign, safe) + 1.0 / safe);
        return choose(away, slope, v[0].constant(0.5));
      });
  return call_special(f, {x});
}
Array i0(Operand x) {
  static const SpecialFunction f{
      "i0",
      [](const Nums& v) { return exp(abs(v[0])) * formulas::bessel_i0e(v[0]); },
      {[](const Xs& v, const Located&) { return of(i1, v[0]); }}};
  return call_special(f, {x});
}
Array i1(Operand x) {
  static const SpecialFunction f{
      "i1",
      [](const Nums& v) { return exp(abs(v[0])) * formulas::bessel_i1e(v[0]); },
      {[](const Xs& v, const Located& y) {
        const double least = v[0].dtype() == f64 ? 0x1p-52 : 0x1p-23;
        const Located away = v[0].with(abs(v[0])) > least;
        const Located safe = choose(away, v[0], v[0].constant(least));
        return choose(away, of(i0, v[0]) - y / safe, v[0].constant(0.5));
      }}};
  return call_special(f, {x});
}

Array bessel_jn(Operand x, std::int64_t v, std::int64_t iterations) {
  if (v < 0 || v > iterations) {
    throw ValueError("bessel_jn up to order " + std::to_string(v) + " from order " +
                         std::to_string(iterations) + "; valid are orders 0 to " +
                         std::to_string(iterations),
                     x.location);
  }
  return composed("bessel_jn", x.location, [&] {
    const Located given = inexact_operands("bessel_jn", {x})[0];
    // The recurrence grows far beyond f32.
    const Located z = frontend::as_type(given, f64);
    Located last = z.with(zeros_like(z)), next = last + 1e-16, total = last;
    std::vector<Array> orders(std::size_t(v) + 1);
    for (std::int64_t k = iterations; k >= 0; --k) {
      const Located f = 2.0 * (double(k) + 1.0) * next / z - last;
      if (k % 2 == 0) total = total + 2.0 * f;
      if (k <= v) orders[std::size_t(k)] = f.array;
      last = next;
      next = f;
    }
    const Located norm = total - next;
    return frontend::as_type(norm.with(stack(orders, 0, z.location)) / norm, given.dtype()).array;
  });
}

// ------------------------------------------------------------------ exponential integrals

Array expn(Operand n, Operand x) {
  static const SpecialFunction f =
      binary("expn", formulas::expn, nullptr,
             [](const Xs& v, const Located&) { return -of(expn, v[0] - 1.0, v[1]); });
  return call_special(f, {n, x});
}
Array exp1(Operand x) { return expn({Array(1), x.location}, x); }
Array expi(Operand x) {
  static const SpecialFunction f = unary("expi", formulas::expi, [](const Xs& v, const Located&) {
    return v[0].with(exp(v[0])) / v[0];
  });
  return call_special(f, {x});
}
Array spence(Operand x) {
  static const SpecialFunction f =
      unary("spence", formulas::spence, [](const Xs& v, const Located&) {
        const Located one = v[0] == 1.0;
        const Located safe = choose(one, v[0].constant(2), v[0]);
        return choose(one, v[0].constant(-1), v[0].with(log(safe)) / (1.0 - safe));
      });
  return call_special(f, {x});
}

}  // namespace tessera
