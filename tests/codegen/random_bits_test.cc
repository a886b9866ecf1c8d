// SPDX-License-Identifier: Apache-2.0
// Kernels of random bits, and of select-and-scatter in small and large types.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/codegen/run_module.h"
#include "tests/support/against_evaluator.h"

namespace tessera::testing {
namespace {

/// Compiled without the evaluator, to the evaluator's bits.
void expect_kernel(const std::string& text, Dice& dice) {
  SCOPED_TRACE(text);
  const auto module = ir::parse_hlo(text);
  const codegen::BuiltPlan built = plan_of(*module);
  EXPECT_TRUE(built.evaluator_ops.empty());
  const std::vector<Literal> args = random_arguments(*module, dice);
  EXPECT_EQ(run_plan(*module, built.plan, {args})[0],
            leaves_of(evaluator::evaluate(*module, args)));
}

TEST(RandomBits, EqualTheEvaluators) {
  Dice dice(20261128);
  for (const char* algorithm : {"rng_three_fry", "rng_philox", "rng_default"}) {
    for (const char* result : {"u32[7]", "u32[3,5]", "u64[5]", "u8[13]", "u16[3,3]", "u32[4097]"}) {
      const std::string state = std::string(algorithm) == "rng_three_fry" ? "u64[2]" : "u64[3]";
      expect_kernel("ENTRY main {\n  s = " + state + " parameter(0)\n  ROOT r = (" + state + ", " +
                        result + ") rng-bit-generator(s), algorithm=" + algorithm + "\n}\n",
                    dice);
    }
  }
}

TEST(SelectAndScatter, EqualsTheEvaluatorsInTypesOfAllSizes) {
  Dice dice(20261129);
  for (const char* type : {"f16", "bf16", "f32", "f64", "s32", "s64"}) {
    const std::string t = type;
    expect_kernel(
        "ge {\n  a = " + t + "[] parameter(0)\n  b = " + t +
            "[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}\nadd {\n  a = " + t +
            "[] parameter(0)\n  b = " + t + "[] parameter(1)\n  ROOT r = " + t +
            "[] add(a, b)\n}\nENTRY main {\n  x = " + t + "[2,9,8] parameter(0)\n  y = " + t +
            "[2,4,4] parameter(1)\n  z = " + t + "[] constant(0)\n  ROOT r = " + t +
            "[2,9,8] select-and-scatter(x, y, z), window={size=1x3x2 stride=1x2x2}, "
            "select=ge, scatter=add\n}\n",
        dice);
  }
}

}  // namespace
}  // namespace tessera::testing
