// SPDX-License-Identifier: Apache-2.0
// The distributions of tessera::random against those of jax.random.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/frontend/ops/fixture_call.h"

namespace tessera {
namespace random_distributions {

using testing::FixtureCall;
using testing::FixtureCase;
using testing::FixtureFunction;

random::OptionalShape shape_of(const FixtureCall& c) {
  return c.has("shape") ? random::OptionalShape(c.list("shape")) : random::OptionalShape();
}
random::Mode mode_of(const FixtureCall& c) {
  const std::string mode = c.word("mode", "low");
  return mode == "low"    ? random::Mode::low
         : mode == "high" ? random::Mode::high
                          : random::Mode::highest;
}

using Drawn = std::function<Array(const FixtureCall&, DType)>;
Drawn of_none(Array (*f)(Operand, random::Shape, DType)) {
  return [f](const FixtureCall& c, DType t) { return f(c[0], c.list("shape"), t); };
}
Drawn of_one(Array (*f)(Operand, Operand, random::OptionalShape, DType)) {
  return [f](const FixtureCall& c, DType t) { return f(c[0], c[1], shape_of(c), t); };
}
Drawn of_two(Array (*f)(Operand, Operand, Operand, random::OptionalShape, DType)) {
  return [f](const FixtureCall& c, DType t) { return f(c[0], c[1], c[2], shape_of(c), t); };
}

const std::map<std::string, Drawn>& table() {
  static const std::map<std::string, Drawn> functions{
      {"logistic", of_none(random::logistic)},
      {"cauchy", of_none(random::cauchy)},
      {"maxwell", of_none(random::maxwell)},
      {"rademacher", of_none(random::rademacher)},
      {"pareto", of_one(random::pareto)},
      {"rayleigh", of_one(random::rayleigh)},
      {"lognormal", of_one(random::lognormal)},
      {"wald", of_one(random::wald)},
      {"gamma", of_one(random::gamma)},
      {"loggamma", of_one(random::loggamma)},
      {"dirichlet", of_one(random::dirichlet)},
      {"t", of_one(random::t)},
      {"chisquare", of_one(random::chisquare)},
      {"poisson", of_one(random::poisson)},
      {"geometric", of_one(random::geometric)},
      {"beta", of_two(random::beta)},
      {"f", of_two(random::f)},
      {"binomial", of_two(random::binomial)},
      {"multinomial", of_two(random::multinomial)},
      {"triangular",
       [](const FixtureCall& c, DType t) {
         return random::triangular(c[0], c[1], c[2], c[3], shape_of(c), t);
       }},
      {"double_sided_maxwell",
       [](const FixtureCall& c, DType t) {
         return random::double_sided_maxwell(c[0], c[1], c[2], c.list("shape"), t);
       }},
      {"weibull_min",
       [](const FixtureCall& c, DType t) {
         return random::weibull_min(c[0], c[1], c[2], c.list("shape"), t);
       }},
      {"generalized_normal",
       [](const FixtureCall& c, DType t) {
         return random::generalized_normal(c[0], c[1], c.list("shape"), t);
       }},
      {"ball",
       [](const FixtureCall& c, DType t) {
         return random::ball(c[0], c.integer("d"), c[1], c.list("shape"), t);
       }},
      {"multivariate_normal",
       [](const FixtureCall& c, DType t) {
         const std::string method = c.word("method", "cholesky");
         return random::multivariate_normal(c[0], c[1], c[2], shape_of(c), t,
                                            method == "svd" ? random::CovarianceFactor::svd
                                            : method == "eigh"
                                                ? random::CovarianceFactor::eigh
                                                : random::CovarianceFactor::cholesky);
       }},
      {"orthogonal",
       [](const FixtureCall& c, DType t) {
         return random::orthogonal(c[0], c.integer("n"), c.list("shape"), t, c.integer("m"));
       }},
      {"gumbel", [](const FixtureCall& c,
                    DType t) { return random::gumbel(c[0], c.list("shape"), t, mode_of(c)); }},
      {"bernoulli", [](const FixtureCall& c,
                       DType) { return random::bernoulli(c[0], c[1], shape_of(c), mode_of(c)); }},
      {"categorical",
       [](const FixtureCall& c, DType) {
         return random::categorical(c[0], c[1], c.integer("axis"), shape_of(c),
                                    {c.integer("replace", 1) != 0, mode_of(c)});
       }},
      {"choice", [](const FixtureCall& c, DType) {
         random::ChoiceOptions options;
         options.replace = c.integer("replace", 1) != 0;
         options.axis = c.integer("axis");
         return random::choice(c[0], c[1], c.list("shape"), options);
       }}};
  return functions;
}

const std::vector<FixtureCase>& cases() {
  static const std::vector<FixtureCase> all = testing::read_fixtures("random_distributions.txt");
  return all;
}

std::vector<std::string> names() {
  std::set<std::string> out;
  for (const FixtureCase& c : cases()) out.insert(c.call);
  return {out.begin(), out.end()};
}

class RandomDistributions : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Run>
  void check(Run run) {
    const auto found = table().find(GetParam());
    ASSERT_NE(found, table().end());
    const FixtureFunction f = [&](const FixtureCall& c) {
      return std::vector<Array>{found->second(c, c.dtype("dtype", f32))};
    };
    int count = 0;
    for (const FixtureCase& c : cases()) {
      if (c.call != GetParam()) continue;
      SCOPED_TRACE(c.name);
      ++count;
      try {
        EXPECT_EQ(run(f, c), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
    EXPECT_GT(count, 0);
  }
};

TEST_P(RandomDistributions, AreThoseOfJax) { check(testing::run_jitted); }

INSTANTIATE_TEST_SUITE_P(All, RandomDistributions, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace random_distributions
}  // namespace tessera
