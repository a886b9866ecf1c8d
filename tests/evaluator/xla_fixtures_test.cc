// SPDX-License-Identifier: Apache-2.0
// Every fixture of tests/fixtures/evaluator, run by the evaluator.
#include <gtest/gtest.h>

#include <filesystem>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/support/fixtures.h"

namespace tessera {
namespace {

class XlaFixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(XlaFixtures, AllCasesAgree) {
  const auto cases = testing::read_fixtures("evaluator/" + GetParam() + ".txt");
  ASSERT_GT(cases.size(), 0u);
  for (const testing::FixtureCase& c : cases) {
    SCOPED_TRACE(c.name);
    try {
      const auto module = ir::parse_hlo(c.hlo, c.file);
      const std::string printed = ir::to_string(*module);
      EXPECT_EQ(ir::to_string(*ir::parse_hlo(printed)), printed);
      EXPECT_EQ(testing::difference(evaluator::evaluate(*module, c.arrays()), c), "");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, XlaFixtures,
                         ::testing::Values("small_floats", "integers", "reals", "complexes",
                                           "windows", "indexing"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
