// SPDX-License-Identifier: Apache-2.0
// Sampled functions, polynomials and products of vectors by their names in the fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

const FixtureTable& sampled_functions() {
  static const FixtureTable table = [] {
    using Call = FixtureCall;
    using Arrays = std::vector<Array>;
    FixtureTable t;
    const auto operand = [](const Call& c, const char* key) {
      return c.has(key) ? std::optional(c[std::size_t(c.integer(key))]) : std::nullopt;
    };
    t["diff"] = [=](const Call& c) {
      DiffOptions o;
      o.prepend = operand(c, "prepend");
      o.append = operand(c, "append");
      return Arrays{diff(c[0], c.integer("n", 1), c.axis().value_or(-1), o)};
    };
    t["ediff1d"] = [=](const Call& c) {
      return Arrays{ediff1d(c[0], operand(c, "end"), operand(c, "begin"))};
    };
    t["gradient"] = [](const Call& c) {
      const std::size_t n = std::size_t(c.integer("spacings"));
      const Arrays all = c.operands_from(1);
      return gradient(c[0], Arrays(all.begin(), all.begin() + std::ptrdiff_t(n)), c.axes());
    };
    t["trapezoid"] = [](const Call& c) {
      return Arrays{trapezoid(c[0], c.number("dx", 1), c.axis().value_or(-1))};
    };
    t["trapezoid_at"] = [](const Call& c) {
      return Arrays{trapezoid_at(c[0], c[1], c.axis().value_or(-1))};
    };
    t["interp"] = [](const Call& c) {
      InterpOptions o;
      if (c.has("left")) o.left = Array(c.number("left"));
      if (c.has("right")) o.right = Array(c.number("right"));
      if (c.has("period")) o.period = c.number("period");
      o.extrapolate_left = o.extrapolate_right = c.has("extrapolate");
      return Arrays{interp(c[0], c[1], c[2], o)};
    };
    const auto mode = [](const Call& c) {
      return c.word("mode") == "full"   ? ConvolveMode::full
             : c.word("mode") == "same" ? ConvolveMode::same
                                        : ConvolveMode::valid;
    };
    t["convolve"] = [=](const Call& c) { return Arrays{convolve(c[0], c[1], mode(c))}; };
    t["correlate"] = [=](const Call& c) { return Arrays{correlate(c[0], c[1], mode(c))}; };
    using Binary = Array (*)(Operand, Operand);
    for (const auto& [name, f] : std::map<std::string, Binary>{{"polyval", polyval},
                                                               {"polyadd", polyadd},
                                                               {"polysub", polysub},
                                                               {"polymul", polymul},
                                                               {"matvec", matvec},
                                                               {"vecmat", vecmat}}) {
      t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1])}; };
    }
    t["polyder"] = [](const Call& c) { return Arrays{polyder(c[0], c.integer("m"))}; };
    t["polyint"] = [=](const Call& c) {
      return Arrays{polyint(c[0], c.integer("m"), operand(c, "k"))};
    };
    t["vecdot"] = [](const Call& c) { return Arrays{vecdot(c[0], c[1], c.axis().value_or(-1))}; };
    t["cross"] = [](const Call& c) {
      CrossOptions o;
      o.axisa = c.integer("axisa", -1);
      o.axisb = c.integer("axisb", -1);
      o.axisc = c.integer("axisc", -1);
      o.axis = c.axis();
      return Arrays{cross(c[0], c[1], o)};
    };
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
