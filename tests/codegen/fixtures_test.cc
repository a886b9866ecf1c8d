// SPDX-License-Identifier: Apache-2.0
// The same fixtures as the evaluator's, through plan, kernels and executor.
#include "tests/support/fixtures.h"

#include <gtest/gtest.h>

#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

class CodegenFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(CodegenFixtures, PlansGiveWhatIsExpected) {
  const std::vector<FixtureCase> cases = read_fixtures(std::string("ops/") + GetParam());
  ASSERT_FALSE(cases.empty());
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + " at " + c.file + ":" + std::to_string(c.line));
    try {
      const auto module = ir::parse_hlo(c.hlo, c.name);
      const std::vector<Literal> results = run_module(*module, c.arrays());
      EXPECT_EQ(difference(Literal::tuple(results), c), "");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, CodegenFixtures,
                         ::testing::Values("binary.txt", "compare_select.txt", "contract.txt",
                                           "control.txt", "index.txt", "order.txt", "reduce.txt",
                                           "structure.txt", "types.txt", "unary.txt"));

}  // namespace
}  // namespace tessera::testing
