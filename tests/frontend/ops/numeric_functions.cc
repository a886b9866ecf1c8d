// SPDX-License-Identifier: Apache-2.0
// numpy's rarer elementwise functions by their names in the fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

const FixtureTable& numeric_functions() {
  static const FixtureTable table = [] {
    using Call = FixtureCall;
    using Arrays = std::vector<Array>;
    FixtureTable t;
    using Unary = Array (*)(Operand);
    const std::map<std::string, Unary> unary{
        {"degrees", degrees},   {"radians", radians},   {"rad2deg", rad2deg},
        {"deg2rad", deg2rad},   {"rint", rint},         {"fix", fix},
        {"positive", positive}, {"invert", invert},     {"bitwise_count", bitwise_count},
        {"spacing", spacing},   {"isposinf", isposinf}, {"isneginf", isneginf}};
    for (const auto& [name, f] : unary) {
      t[name] = [f = f](const Call& c) { return Arrays{f(c[0])}; };
    }
    using Binary = Array (*)(Operand, Operand);
    const std::map<std::string, Binary> binary{{"logaddexp2", logaddexp2},
                                               {"heaviside", heaviside},
                                               {"ldexp", ldexp},
                                               {"gcd", gcd},
                                               {"lcm", lcm},
                                               {"fmax", fmax},
                                               {"fmin", fmin},
                                               {"float_power", float_power},
                                               {"array_equiv", array_equiv}};
    for (const auto& [name, f] : binary) {
      t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1])}; };
    }
    const auto both = [](const std::pair<Array, Array>& p) { return Arrays{p.first, p.second}; };
    t["frexp"] = [=](const Call& c) { return both(frexp(c[0])); };
    t["modf"] = [=](const Call& c) { return both(modf(c[0])); };
    t["divmod"] = [=](const Call& c) { return both(divmod(c[0], c[1])); };
    const auto maybe = [](const Call& c, const char* key) {
      return c.has(key) ? std::optional(c.number(key)) : std::nullopt;
    };
    t["nan_to_num"] = [=](const Call& c) {
      return Arrays{nan_to_num(c[0], c.number("nan"), maybe(c, "posinf"), maybe(c, "neginf"))};
    };
    t["isclose"] = [](const Call& c) {
      return Arrays{isclose(c[0], c[1], c.number("rtol", 1e-5), 1e-8, c.integer("equal_nan") != 0)};
    };
    t["array_equal"] = [](const Call& c) {
      return Arrays{array_equal(c[0], c[1], c.integer("equal_nan") != 0)};
    };
    t["select"] = [](const Call& c) { return Arrays{select({c[0], c[1]}, {c[2], c[3]}, c[4])}; };
    t["piecewise"] = [](const Call& c) {
      std::vector<Piece> pieces{[](Array x) { return x * x; }, 3};
      if (c.has("rest")) pieces.push_back([](Array x) { return -x; });
      return Arrays{piecewise(c[0], {c[1], c[2]}, pieces)};
    };
    t["unwrap"] = [=](const Call& c) {
      return Arrays{unwrap(c[0], maybe(c, "discont"), c.axis().value_or(-1),
                           c.number("period", 6.283185307179586))};
    };
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
