// SPDX-License-Identifier: Apache-2.0
// TESSERA_EVALUATOR_OPS: programs with operations that have no kernel.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/with_variable.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(EvaluatorOps, AreRefusedIfTheUserSaysSo) {
  const std::string slow =
      "HloModule m\n\nENTRY main {\n  s = u64[3] parameter(0)\n"
      "  ROOT r = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_three_fry\n}\n";
  const std::string fast =
      "HloModule m\n\nENTRY main {\n  s = f32[3] parameter(0)\n  ROOT c = f32[3] add(s, s)\n}\n";
  EXPECT_EQ(run_tool({"run", "-"}, slow).code, 0);
  const WithVariable error("TESSERA_EVALUATOR_OPS", "error");
  const Ran ran = run_tool({"run", "-"}, slow);
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("rng-bit-generator"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("TESSERA_EVALUATOR_OPS=error"), std::string::npos) << ran.err;
  EXPECT_EQ(run_tool({"run", "-"}, fast).code, 0);
}

}  // namespace
}  // namespace tessera::testing
