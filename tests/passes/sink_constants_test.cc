// SPDX-License-Identifier: Apache-2.0
// Loops make the constants that they would carry.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/sink_constants.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// How many carries of two loops, one in the other, are read no more. Both carry (counter, limit,
/// `carried` f32[4], x), and the inner loop starts from what the outer one carries.
std::size_t sunk(const std::string& limit, const std::string& carried) {
  const std::string state = "(s32[], s32[], f32[4], f32[4])";
  const std::string parts = R"(  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  c = f32[4] get-tuple-element(s), index=2
  x = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
)";
  const auto condition = [&](const std::string& name) {
    return name + " { s = " + state +
           " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
           "  n = s32[] get-tuple-element(s), index=1\n"
           "  ROOT p = pred[] compare(i, n), direction=LT }\n";
  };
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(
      "HloModule m\n" + condition("cond") + condition("cond2") + "inner { s = " + state +
      " parameter(0)\n" + parts + "  y = f32[4] add(x, c)\n  ROOT t = " + state +
      " tuple(j, n, c, y) }\nouter { s = " + state + " parameter(0)\n" + parts +
      "  zero = s32[] constant(0)\n  start = " + state + " tuple(zero, n, c, x)\n  l = " + state +
      " while(start), condition=cond, body=inner\n"
      "  y = f32[4] get-tuple-element(l), index=3\n  ROOT t = " +
      state + " tuple(j, n, c, y) }\nENTRY e { x = f32[4] parameter(0)\n" +
      "  zero = s32[] constant(0)\n  limit = s32[] " + limit + "\n  two = f32[] constant(2)\n" +
      "  carried = f32[4] " + carried + "\n  start = " + state +
      " tuple(zero, limit, carried, x)\n  l = " + state +
      " while(start), condition=cond2, body=outer\n"
      "  r = f32[4] get-tuple-element(l), index=3\n  c = f32[4] get-tuple-element(l), index=2\n"
      "  ROOT d = f32[4] subtract(r, c) }");
  Literal x(Shape(f32, {4}));
  for (float& f : x.mutable_data<float>()) f = 1.5f;
  const std::vector<Literal> arguments{x};
  return testing::keeps_results(module.get(), arguments, sink_constants_into_loops);
}

TEST(SinkConstants, IntoBothOfTwoLoops) {
  EXPECT_EQ(sunk("constant(3)", "broadcast(two), dimensions={}"), 4u);
  EXPECT_EQ(sunk("constant(3)", "iota(), iota_dimension=0"), 4u);
}

TEST(SinkConstants, WhatIsStoredStays) {
  EXPECT_EQ(sunk("constant(3)", "constant({1, 2, 3, 4})"), 2u);
  EXPECT_EQ(sunk("constant(3)", "negate(x)"), 2u);
}

}  // namespace
}  // namespace tessera::passes
