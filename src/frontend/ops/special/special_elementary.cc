// SPDX-License-Identifier: Apache-2.0
// Special functions of the normal distribution and of entropies.
#include <tessera/ops/special.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/ops/elementwise.h>

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

using Points = std::vector<Located>;
using Numbers = std::vector<Num>;
namespace formulas = ir::formulas;

constexpr double kEndlessEntropy = std::numeric_limits<double>::infinity();

Located exp_of(const Located& x) { return x.with(exp(x)); }
Located log_of(const Located& x) { return x.with(log(x)); }

SpecialFunction of_one(const char* name, Num (*formula)(Num), SpecialFunction::Partial partial) {
  return {name, [formula](const Numbers& x) { return formula(x[0]); }, {std::move(partial)}};
}

}  // namespace

Array erfc(Operand x) {
  static const SpecialFunction f =
      of_one("erfc", formulas::erfc, [](const Points& v, const Located&) {
        return -2 * std::numbers::inv_sqrtpi * exp_of(-(v[0] * v[0]));
      });
  return call_special(f, {x});
}
Array erfcx(Operand x) {
  static const SpecialFunction f =
      of_one("erfcx", formulas::erfcx, [](const Points& v, const Located& y) {
        return 2.0 * v[0] * y - 2 * std::numbers::inv_sqrtpi;
      });
  return call_special(f, {x});
}
Array erf_inv(Operand x) {
  static const SpecialFunction f =
      of_one("erf_inv", formulas::erf_inv, [](const Points&, const Located& y) {
        return 0.5 / std::numbers::inv_sqrtpi * exp_of(y * y);
      });
  return call_special(f, {x});
}
Array ndtr(Operand x) {
  static const SpecialFunction f =
      of_one("ndtr", formulas::ndtr, [](const Points& v, const Located&) {
        return 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi * exp_of(v[0] * v[0] * -0.5);
      });
  return call_special(f, {x});
}
Array log_ndtr(Operand x) {
  static const SpecialFunction f =
      of_one("log_ndtr", formulas::log_ndtr, [](const Points& v, const Located& y) {
        return exp_of(v[0] * v[0] * -0.5 - 0.5 * std::log(2 * std::numbers::pi) - y);
      });
  return call_special(f, {x});
}
Array ndtri(Operand p) {
  static const SpecialFunction f =
      of_one("ndtri", formulas::ndtri, [](const Points&, const Located& y) {
        return std::sqrt(2 * std::numbers::pi) * exp_of(y * y * 0.5);
      });
  return call_special(f, {p});
}

Array xlogy(Operand x, Operand y) {
  static const SpecialFunction f{"xlogy",
                                 [](const Numbers& v) {
                                   return choose((v[0] != 0.0) | (v[1] != v[1]), v[0] * log(v[1]),
                                                 v[0].m->constant(0));
                                 },
                                 {[](const Points& v, const Located&) { return log_of(v[1]); },
                                  [](const Points& v, const Located&) { return v[0] / v[1]; }}};
  return call_special(f, {x, y});
}
Array xlog1py(Operand x, Operand y) {
  static const SpecialFunction f{
      "xlog1py",
      [](const Numbers& v) {
        return choose((v[0] != 0.0) | (v[1] != v[1]), v[0] * log1p(v[1]), v[0].m->constant(0));
      },
      {[](const Points& v, const Located&) { return v[1].with(log1p(v[1])); },
       [](const Points& v, const Located&) { return v[0] / (v[1] + 1.0); }}};
  return call_special(f, {x, y});
}
Array entr(Operand x) {
  static const SpecialFunction f{"entr",
                                 [](const Numbers& v) {
                                   const Num size = choose((v[0] != 0.0), -(v[0] * log(v[0])),
                                                           v[0].m->constant(0));
                                   return choose(v[0] < 0.0, -kEndlessEntropy, size);
                                 },
                                 {[](const Points& v, const Located&) {
                                   const Located negative = v[0] < 0.0;
                                   const Located safe = choose(negative, v[0].constant(1), v[0]);
                                   return choose(negative, v[0].constant(0), -log_of(safe) - 1.0);
                                 }}};
  return call_special(f, {x});
}

namespace {

Num relative_entropy(Num p, Num q) {
  const Num both = (p > 0.0) & (q > 0.0);
  const Num safe_p = choose(both, p, p.m->constant(1)), safe_q = choose(both, q, p.m->constant(1));
  const Num edge =
      choose((p == 0.0) & (q >= 0.0), p.m->constant(0), p.m->constant(kEndlessEntropy));
  return choose(both, safe_p * log(safe_p) - safe_p * log(safe_q), edge);
}
Located entropy_by_p(const Points& v) {
  const Located both = (v[0] > 0.0) & (v[1] > 0.0), one = v[0].constant(1);
  const Located slope = log_of(choose(both, v[0], one)) - log_of(choose(both, v[1], one)) + 1.0;
  return choose(both, slope, v[0].constant(0));
}
Located entropy_by_q(const Points& v) {
  const Located both = (v[0] > 0.0) & (v[1] > 0.0);
  return choose(both, -(v[0] / choose(both, v[1], v[1].constant(1))), v[0].constant(0));
}

}  // namespace

Array rel_entr(Operand p, Operand q) {
  static const SpecialFunction f{"rel_entr",
                                 [](const Numbers& v) { return relative_entropy(v[0], v[1]); },
                                 {[](const Points& v, const Located&) { return entropy_by_p(v); },
                                  [](const Points& v, const Located&) { return entropy_by_q(v); }}};
  return call_special(f, {p, q});
}
Array kl_div(Operand p, Operand q) {
  static const SpecialFunction f{
      "kl_div",
      [](const Numbers& v) { return relative_entropy(v[0], v[1]) - v[0] + v[1]; },
      {[](const Points& v, const Located&) { return entropy_by_p(v) - 1.0; },
       [](const Points& v, const Located&) { return entropy_by_q(v) + 1.0; }}};
  return call_special(f, {p, q});
}

Array logit(Operand x) {
  static const SpecialFunction f{
      "logit",
      [](const Numbers& v) { return log(v[0] / (1.0 - v[0])); },
      {[](const Points& v, const Located&) { return 1.0 / (v[0] * (1.0 - v[0])); }}};
  return call_special(f, {x});
}
Array expit(Operand x) { return sigmoid(x); }

namespace {

Array box_cox(const char* name, const Operand& x, const Operand& l, bool plus_one) {
  return composed(name, frontend::where_of(x, l), [&] {
    const Points v = inexact_operands(name, {x, l});
    const Located zero = v[1] == 0.0, safe = choose(zero, v[1].constant(1), v[1]);
    const Located logarithm = plus_one ? v[0].with(log1p(v[0])) : log_of(v[0]);
    return choose(zero, logarithm, v[0].with(expm1(safe * logarithm)) / safe).array;
  });
}

}  // namespace

Array boxcox(Operand x, Operand l) { return box_cox("boxcox", x, l, false); }
Array boxcox1p(Operand x, Operand l) { return box_cox("boxcox1p", x, l, true); }

Array exprel(Operand x) {
  static const SpecialFunction f{"exprel",
                                 [](const Numbers& v) {
                                   const Num zero = v[0] == 0.0, one = v[0].m->constant(1);
                                   const Num safe = choose(zero, one, v[0]);
                                   return choose(zero, one, expm1(safe) / safe);
                                 },
                                 {[](const Points& v, const Located& y) {
                                   // Near 0 the difference cancels: the series of the derivative.
                                   const Located near = v[0].with(abs(v[0])) < 0.25;
                                   const Located s = choose(near, v[0], v[0].constant(0));
                                   Located series = s.constant(0);
                                   for (int k = 12; k >= 0; --k)
                                     series = series * s + (k + 1) / std::tgamma(k + 3.0);
                                   const Located safe = choose(near, v[0].constant(1), v[0]);
                                   return choose(near, series, (exp_of(safe) - y) / safe);
                                 }}};
  return call_special(f, {x});
}

namespace {

constexpr std::size_t kSincOrders = 24;

/// The k-th derivative of sinc at 0: of sin(y) / y by y.
double sinc_at_zero(std::size_t k) {
  return k % 2 != 0 ? 0 : (k % 4 == 0 ? 1.0 : -1.0) / double(k + 1);
}
/// A constant at 0, of which the derivatives are those of sinc there.
Array sinc_series(std::size_t order, const Operand& y) {
  static const std::vector<SpecialFunction> orders = [] {
    std::vector<SpecialFunction> out;
    for (std::size_t k = 0; k < kSincOrders; ++k) {
      SpecialFunction::Partial next;
      if (k + 1 < kSincOrders) {
        next = [k](const Points& v, const Located&) { return v[0].with(sinc_series(k + 1, v[0])); };
      }
      out.push_back({"sinc",
                     [k](const Numbers& v) { return v[0] * 0.0 + sinc_at_zero(k); },
                     {std::move(next)}});
    }
    return out;
  }();
  return call_special(orders[order], {y});
}

}  // namespace

Array sinc(Operand x) {
  return composed("sinc", x.location, [&] {
    const Located v = inexact_operands("sinc", {x})[0];
    const Located zero = v == 0.0, y = std::numbers::pi * v;
    const Located safe = choose(zero, v.constant(1), y);
    const Located at_zero = choose(zero, y, v.constant(0));
    return choose(zero, v.with(sinc_series(0, at_zero)), v.with(sin(safe)) / safe).array;
  });
}

}  // namespace tessera
