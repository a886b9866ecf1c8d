// SPDX-License-Identifier: Apache-2.0
// Custom calls that JAX emits for linear algebra: its own programs and results, through the
// evaluator and through plans; forms of the older interface; what doesn't fit.
#include <gtest/gtest.h>

#include "src/codegen/custom_calls/custom_calls.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/passes/inline_calls.h"
#include "tests/codegen/run_module.h"
#include "tests/support/fixtures.h"

namespace tessera::testing {
namespace {

class LinalgFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(LinalgFixtures, GiveWhatJaxGives) {
  codegen::register_builtin_custom_calls();
  const std::vector<FixtureCase> cases = read_fixtures(GetParam());
  ASSERT_GT(cases.size(), 3u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + " at " + c.file + ":" + std::to_string(c.line));
    try {
      const auto module = ir::parse_hlo(c.hlo, c.name);
      const std::vector<Literal> arguments = c.arrays();
      EXPECT_EQ(difference(evaluator::evaluate(*module, arguments), c), "") << "evaluated";
      ir::expand_custom_calls(module.get(), false);
      ir::expand_custom_calls(module.get(), true);
      passes::inline_calls(module.get());
      const codegen::BuiltPlan built = plan_of(*module);
      const std::vector<Literal> results = run_plan(*module, built.plan, {arguments})[0];
      EXPECT_EQ(difference(Literal::tuple(results), c), "") << "compiled";
      for (const std::string& op : built.evaluator_ops) {
        EXPECT_EQ(op.find("custom-call"), std::string::npos) << op;
        EXPECT_EQ(op.find("top_k"), std::string::npos) << op;
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LinalgFixtures,
                         ::testing::Values("linalg/linalg.txt", "linalg/linalg_older.txt"));

}  // namespace
}  // namespace tessera::testing
