// SPDX-License-Identifier: Apache-2.0
// Transposes move behind elementwise ops that only dots read.
#include "src/passes/products/sink_transposes.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// How many moved. Results are the same, bit by bit, and what is left is computed of whole arrays.
std::size_t moved(const std::string& body) {
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(
      "HloModule m\nENTRY e {\n  i = f32[5,3] iota(), iota_dimension=0\n"
      "  k = f32[5,3] iota(), iota_dimension=1\n  x = f32[5,3] subtract(i, k)\n"
      "  w = f32[5] iota(), iota_dimension=0\n  y = f32[5,2] iota(), iota_dimension=0\n" +
      body + "\n}\n");
  const std::size_t count = testing::keeps_results(module.get(), {}, sink_transposes);
  for (const auto& i : module->entry()->instructions()) {
    if (count == 0 || !ir::is_elementwise(i->opcode)) continue;
    for (const ir::Instruction* o : i->operands()) EXPECT_FALSE(o->is(ir::Opcode::transpose));
  }
  return count;
}

TEST(LateTransposes, MoveBehindElementwiseOps) {
  EXPECT_EQ(moved("  t = f32[3,5] transpose(x), dimensions={1,0}\n"
                  "  b = f32[3,5] broadcast(w), dimensions={1}\n"
                  "  m = f32[3,5] multiply(t, b)\n"
                  "  ROOT out = f32[3,2] dot(m, y), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}"),
            1u);
  EXPECT_EQ(moved("  t = f32[3,5] transpose(x), dimensions={1,0}\n"
                  "  s = f32[] constant(2)\n  b = f32[3,5] broadcast(s), dimensions={}\n"
                  "  n = f32[3,5] negate(t)\n  m = f32[3,5] multiply(b, n)\n"
                  "  c = bf16[3,5] convert(m)\n  z = bf16[5,2] convert(y)\n"
                  "  ROOT out = f32[3,2] dot(c, z), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}"),
            1u);
}

TEST(LateTransposes, StayWhereOthersReadOrArraysWouldBeMoved) {
  // Something else reads the product.
  EXPECT_EQ(moved("  t = f32[3,5] transpose(x), dimensions={1,0}\n"
                  "  m = f32[3,5] negate(t)\n"
                  "  d = f32[3,2] dot(m, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "  ROOT out = (f32[3,5], f32[3,2]) tuple(m, d)"),
            0u);
  // An array that isn't transposed.
  EXPECT_EQ(moved("  t = f32[3,5] transpose(x), dimensions={1,0}\n"
                  "  a = f32[3,5] reshape(x)\n  m = f32[3,5] multiply(t, a)\n"
                  "  ROOT out = f32[3,2] dot(m, y), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}"),
            0u);
}

TEST(LateTransposes, ManyWaysToOneTransposeTakeNoTime) {
  std::string body = "  t = f32[3,5] transpose(x), dimensions={1,0}\n  a0 = f32[3,5] negate(t)\n";
  for (int k = 0; k < 60; ++k) {
    const std::string before = "a" + std::to_string(k);
    body += "  a" + std::to_string(k + 1) + " = f32[3,5] maximum(" + before + ", " + before + ")\n";
  }
  EXPECT_EQ(moved(body + "  ROOT out = f32[3,2] dot(a60, y), lhs_contracting_dims={1}, "
                         "rhs_contracting_dims={0}"),
            0u);
}

}  // namespace
}  // namespace tessera::passes
