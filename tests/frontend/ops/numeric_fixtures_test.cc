// SPDX-License-Identifier: Apache-2.0
// Numeric functions against JAX's results and gradients: all cases run eagerly, the first one of
// each function under jit on eight devices.
#include <gtest/gtest.h>

#include <set>

#include "tests/frontend/ops/numeric_functions.h"

namespace tessera {
namespace {

using testing::FixtureCall;
using testing::FixtureCase;
using testing::FixtureFunction;

struct NumericFile {
  const char* path;
  const testing::FixtureTable& (*functions)();
};

/// Long programs, of which operands that are split in different ways take long to compile; tests of
/// special functions run them on shards.
const std::set<std::string> kLongPrograms{"beta", "betaln",   "betainc",   "expi",
                                          "expn", "gammainc", "gammaincc", "zeta"};

class NumericFixtures : public ::testing::TestWithParam<NumericFile> {
 protected:
  template <class Run>
  void check(Run run, bool all) {
    std::size_t count = 0;
    std::set<std::string> seen;
    for (const FixtureCase& c : testing::read_fixtures(GetParam().path)) {
      SCOPED_TRACE(c.name);
      const auto found = GetParam().functions().find(c.call);
      if (found == GetParam().functions().end()) {
        ADD_FAILURE() << "no function for the fixtures' name " << c.call;
        continue;
      }
      FixtureFunction f = found->second;
      const bool gradient = c.options.count("grad") > 0;
      if (!all && (gradient || kLongPrograms.count(c.call) || !seen.insert(c.call).second)) {
        continue;
      }
      if (gradient) {
        f = [f](const FixtureCall& call) {
          return testing::gradient_of(f, call, std::size_t(call.integer("grad")));
        };
      }
      try {
        EXPECT_EQ(run(f, c), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      ++count;
    }
    EXPECT_GE(count, 10u);
  }
};

TEST_P(NumericFixtures, Eagerly) { check(testing::run_eagerly, true); }
TEST_P(NumericFixtures, Sharded) { check(testing::run_sharded, false); }

INSTANTIATE_TEST_SUITE_P(
    All, NumericFixtures,
    ::testing::Values(NumericFile{"numeric/special.txt", testing::special_functions},
                      NumericFile{"numeric/numeric.txt", testing::numeric_functions},
                      NumericFile{"numeric/statistics.txt", testing::statistics_functions},
                      NumericFile{"numeric/sampled.txt", testing::sampled_functions},
                      NumericFile{"numeric/pieces.txt", testing::pieces_functions},
                      NumericFile{"numeric/linear_algebra.txt", testing::linear_algebra_functions}),
    [](const auto& info) {
      const std::string path = info.param.path;
      return path.substr(8, path.size() - 12);
    });

}  // namespace
}  // namespace tessera
