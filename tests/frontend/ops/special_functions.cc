// SPDX-License-Identifier: Apache-2.0
// Special functions by their names in the fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

const FixtureTable& special_functions() {
  static const FixtureTable table = [] {
    using Call = FixtureCall;
    using Arrays = std::vector<Array>;
    FixtureTable t;
    using Unary = Array (*)(Operand);
    const std::map<std::string, Unary> unary{{"gammaln", gammaln},
                                             {"gammasgn", gammasgn},
                                             {"gamma", gamma},
                                             {"digamma", digamma},
                                             {"factorial", factorial},
                                             {"erfc", erfc},
                                             {"erfcx", erfcx},
                                             {"erfinv", erf_inv},
                                             {"ndtr", ndtr},
                                             {"log_ndtr", log_ndtr},
                                             {"ndtri", ndtri},
                                             {"i0", i0},
                                             {"i0e", i0e},
                                             {"i1", i1},
                                             {"i1e", i1e},
                                             {"entr", entr},
                                             {"logit", logit},
                                             {"expit", expit},
                                             {"sinc", sinc},
                                             {"exp1", exp1},
                                             {"expi", expi},
                                             {"spence", spence}};
    for (const auto& [name, f] : unary) {
      t[name] = [f = f](const Call& c) { return Arrays{f(c[0])}; };
    }
    using Binary = Array (*)(Operand, Operand);
    const std::map<std::string, Binary> binary{{"comb", comb},           {"polygamma", polygamma},
                                               {"zeta", zeta},           {"beta", beta},
                                               {"betaln", betaln},       {"gammainc", gammainc},
                                               {"gammaincc", gammaincc}, {"xlogy", xlogy},
                                               {"xlog1py", xlog1py},     {"rel_entr", rel_entr},
                                               {"kl_div", kl_div},       {"boxcox", boxcox},
                                               {"boxcox1p", boxcox1p},   {"expn", expn}};
    for (const auto& [name, f] : binary) {
      t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1])}; };
    }
    t["betainc"] = [](const Call& c) { return Arrays{betainc(c[0], c[1], c[2])}; };
    t["multigammaln"] = [](const Call& c) { return Arrays{multigammaln(c[0], c.integer("d"))}; };
    t["bessel_jn"] = [](const Call& c) {
      return Arrays{bessel_jn(c[0], c.integer("v"), c.integer("iterations", 50))};
    };
    return t;
  }();
  return table;
}

std::vector<Array> gradient_of(const FixtureFunction& f, const FixtureCall& call, std::size_t by) {
  const std::vector<Array>& all = call.operands();
  const auto total = [&](Array moved) {
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (call.fixture().operands[i].array) arrays.push_back(i == by ? moved : all[i]);
    }
    Array out;
    for (const Array& y : f(FixtureCall(call.fixture(), arrays))) {
      if (!is_floating(y.dtype())) continue;
      out = out.valid() ? out + sum(y) : sum(y);
    }
    return out;
  };
  return {grad(total)(all[by])};
}

}  // namespace tessera::testing
