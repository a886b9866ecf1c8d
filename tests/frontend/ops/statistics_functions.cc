// SPDX-License-Identifier: Apache-2.0
// Statistics and histograms by their names in the fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

namespace {

using Call = FixtureCall;
using Arrays = std::vector<Array>;

std::optional<Array> mask_of(const Call& c) {
  return c.has("masked") ? std::optional(c[1]) : std::nullopt;
}
std::optional<Array> initial_of(const Call& c) {
  return c.has("initial") ? std::optional(Array(c.number("initial"))) : std::nullopt;
}

void add_masked(FixtureTable& t) {
  using Sum = Array (*)(Operand, Axes, const ReduceOptions&);
  for (const auto& [name, f] : std::map<std::string, Sum>{{"sum", sum},
                                                          {"prod", prod},
                                                          {"mean", mean},
                                                          {"nansum", nansum},
                                                          {"nanprod", nanprod},
                                                          {"nanmean", nanmean}}) {
    t[name] = [f = f](const Call& c) {
      ReduceOptions o;
      o.where = mask_of(c);
      o.initial = initial_of(c);
      return Arrays{f(c[0], c.axes(), o)};
    };
  }
  using Var = Array (*)(Operand, Axes, const VarOptions&);
  for (const auto& [name, f] : std::map<std::string, Var>{
           {"var", var}, {"std", stddev}, {"nanvar", nanvar}, {"nanstd", nanstd}}) {
    t[name] = [f = f](const Call& c) {
      VarOptions o;
      o.where = mask_of(c);
      o.ddof = c.number("ddof");
      return Arrays{f(c[0], c.axes(), o)};
    };
  }
  using Extreme = Array (*)(Operand, Axes, const ExtremeOptions&);
  for (const auto& [name, f] : std::map<std::string, Extreme>{
           {"max", max}, {"min", min}, {"nanmax", nanmax}, {"nanmin", nanmin}}) {
    t[name] = [f = f](const Call& c) {
      ExtremeOptions o;
      o.where = mask_of(c);
      o.initial = initial_of(c);
      return Arrays{f(c[0], c.axes(), o)};
    };
  }
  using Where = Array (*)(Operand, Axes, const WhereOptions&);
  for (const auto& [name, f] : std::map<std::string, Where>{{"any", any}, {"all", all}}) {
    t[name] = [f = f](const Call& c) {
      WhereOptions o;
      o.where = mask_of(c);
      o.keepdims = c.integer("keepdims") != 0;
      return Arrays{f(c[0], c.axes(), o)};
    };
  }
  using Arg = Array (*)(Operand, std::optional<std::int64_t>, bool);
  for (const auto& [name, f] :
       std::map<std::string, Arg>{{"nanargmax", nanargmax}, {"nanargmin", nanargmin}}) {
    t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c.axis(), false)}; };
  }
  using Scan = Array (*)(Operand, std::optional<std::int64_t>);
  for (const auto& [name, f] : std::map<std::string, Scan>{{"nancumsum", nancumsum},
                                                           {"nancumprod", nancumprod},
                                                           {"cummax", cummax},
                                                           {"cummin", cummin},
                                                           {"cumlogsumexp", cumlogsumexp}}) {
    t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c.axis())}; };
  }
}

void add_quantiles(FixtureTable& t) {
  const auto options = [](const Call& c) {
    const std::map<std::string, QuantileMethod> methods{
        {"linear", QuantileMethod::linear},   {"lower", QuantileMethod::lower},
        {"higher", QuantileMethod::higher},   {"midpoint", QuantileMethod::midpoint},
        {"nearest", QuantileMethod::nearest}, {"inverted_cdf", QuantileMethod::inverted_cdf}};
    QuantileOptions o;
    o.method = methods.at(c.word("method", "linear"));
    o.keepdims = c.integer("keepdims") != 0;
    if (c.has("weighted")) o.weights = c[2];
    return o;
  };
  using Of = Array (*)(Operand, Operand, Axes, const QuantileOptions&);
  for (const auto& [name, f] : std::map<std::string, Of>{{"quantile", quantile},
                                                         {"nanquantile", nanquantile},
                                                         {"percentile", percentile},
                                                         {"nanpercentile", nanpercentile}}) {
    t[name] = [f = f, options](const Call& c) {
      return Arrays{f(c[0], c[1], c.axes(), options(c))};
    };
  }
  t["median"] = [](const Call& c) { return Arrays{median(c[0], c.axes())}; };
  t["nanmedian"] = [](const Call& c) { return Arrays{nanmedian(c[0], c.axes())}; };
}

void add_averages(FixtureTable& t) {
  t["average"] = [](const Call& c) {
    AverageOptions o;
    if (c.has("weighted")) o.weights = c[1];
    o.keepdims = c.integer("keepdims") != 0;
    if (!c.has("returned")) return Arrays{average(c[0], c.axes(), o)};
    const auto [mean, weights] = average_and_weights(c[0], c.axes(), o);
    return Arrays{mean, weights};
  };
  t["ptp"] = [](const Call& c) { return Arrays{ptp(c[0], c.axes())}; };
  const auto operand = [](const Call& c, const char* key) {
    return c.has(key) ? std::optional(c[std::size_t(c.integer(key))]) : std::nullopt;
  };
  t["cov"] = [=](const Call& c) {
    CovOptions o;
    o.y = operand(c, "y");
    o.fweights = operand(c, "fweights");
    o.aweights = operand(c, "aweights");
    o.rowvar = c.integer("rowvar", 1) != 0;
    o.bias = c.integer("bias") != 0;
    if (c.has("ddof")) o.ddof = c.integer("ddof");
    return Arrays{cov(c[0], o)};
  };
  t["corrcoef"] = [=](const Call& c) { return Arrays{corrcoef(c[0], operand(c, "y"))}; };
}

void add_histograms(FixtureTable& t) {
  const auto bins = [](const Call& c) {
    return c.has("edges") ? Bins(c[1]) : Bins(c.integer("bins", 10));
  };
  const auto options = [](const Call& c) {
    HistogramOptions o;
    if (c.has("low")) o.range = {c.number("low"), c.number("high")};
    if (c.has("weighted")) o.weights = c[1];
    o.density = c.integer("density") != 0;
    return o;
  };
  t["histogram"] = [=](const Call& c) {
    const auto [counts, edges] = histogram(c[0], bins(c), options(c));
    return Arrays{counts, edges};
  };
  t["histogram_bin_edges"] = [=](const Call& c) {
    return Arrays{histogram_bin_edges(c[0], bins(c), options(c))};
  };
  t["histogramdd"] = [=](const Call& c) {
    std::vector<std::pair<double, double>> ranges;
    if (c.has("low")) ranges = {{c.number("low"), c.number("high")}};
    const auto [counts, edges] =
        histogramdd(c[0], {bins(c)}, ranges, {}, c.integer("density") != 0);
    Arrays out{counts};
    out.insert(out.end(), edges.begin(), edges.end());
    return out;
  };
  t["histogram2d"] = [=](const Call& c) {
    const Histogram2d h = histogram2d(c[0], c[1], {bins(c)});
    return Arrays{h.counts, h.x_edges, h.y_edges};
  };
  t["bincount"] = [](const Call& c) {
    BincountOptions o;
    o.minlength = c.integer("minlength");
    if (c.has("length")) o.length = c.integer("length");
    if (c.has("weighted")) o.weights = c[1];
    return Arrays{bincount(c[0], o)};
  };
  t["digitize"] = [](const Call& c) {
    return Arrays{digitize(c[0], c[1], c.integer("right") != 0)};
  };
}

}  // namespace

const FixtureTable& statistics_functions() {
  static const FixtureTable table = [] {
    FixtureTable t;
    add_masked(t);
    add_quantiles(t);
    add_averages(t);
    add_histograms(t);
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
