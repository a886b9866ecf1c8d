// SPDX-License-Identifier: Apache-2.0
// Array operations against jax.numpy's results: traced and evaluated, run eagerly, run under jit on
// one device and on eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/frontend/ops/numpy_functions.h"

namespace tessera {
namespace {

using testing::FixtureCase;

/// Functions that the fixtures have and Tessera doesn't.
const std::set<std::string> kNotThere{"norm"};

/// Cases that mean something else in Tessera: round (numpy's rint) leaves integers integers.
const std::set<std::string> kNotMeant{"rint_1"};

std::vector<FixtureCase> cases_of(const std::string& function) {
  std::vector<FixtureCase> out;
  for (const FixtureCase& c : testing::read_fixtures("numpy_ops.txt")) {
    if (c.call == function && !kNotMeant.count(c.name)) out.push_back(c);
  }
  return out;
}

std::vector<std::string> functions() {
  std::set<std::string> names;
  for (const FixtureCase& c : testing::read_fixtures("numpy_ops.txt")) names.insert(c.call);
  for (const std::string& name : kNotThere) names.erase(name);
  return {names.begin(), names.end()};
}

class NumpyOps : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Run>
  void check(Run run) {
    const auto found = testing::numpy_functions().find(GetParam());
    ASSERT_NE(found, testing::numpy_functions().end()) << "no function for the fixtures' name";
    const std::vector<FixtureCase> cases = cases_of(GetParam());
    ASSERT_GT(cases.size(), 0u);
    for (const FixtureCase& c : cases) {
      SCOPED_TRACE(c.name);
      try {
        EXPECT_EQ(run(found->second, c), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
};

TEST_P(NumpyOps, TracedAndEvaluated) { check(testing::run_traced); }
TEST_P(NumpyOps, Eagerly) { check(testing::run_eagerly); }
TEST_P(NumpyOps, UnderJit) { check(testing::run_jitted); }
TEST_P(NumpyOps, Sharded) { check(testing::run_sharded); }

INSTANTIATE_TEST_SUITE_P(All, NumpyOps, ::testing::ValuesIn(functions()),
                         [](const auto& info) { return info.param; });

TEST(NumpyOpsTable, ListsNoExistingFunctionAsMissing) {
  for (const std::string& name : kNotThere) {
    EXPECT_EQ(testing::numpy_functions().count(name), 0u) << name;
    EXPECT_FALSE(cases_of(name).empty()) << name << " is in no fixture";
  }
}

}  // namespace
}  // namespace tessera
