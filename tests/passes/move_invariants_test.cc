// SPDX-License-Identifier: Apache-2.0
// What is the same in all trips of a loop is computed before it.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/move_invariants.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/loop_text.h"

namespace tessera::passes {
namespace {

/// Text of a loop of up to `trips` trips over (counter, x, w), both f32[16,16]; `body` computes
/// `next` of x and w.
std::string loop_text(const std::string& body, int trips) {
  const testing::CountedLoopText loop("i", {{"x", "f32[16,16]"}, {"w", "f32[16,16]"}});
  return R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
)" + loop.condition("condition", trips) +
         loop.body("body", body, "next, w") + R"(ENTRY e { x = f32[16,16] parameter(0)
  w = f32[16,16] parameter(1)
)" + loop.loop("l", "x, w") +
         "  ROOT r = f32[16,16] get-tuple-element(l), index=1 }";
}

/// How many values are carried more; the results have to stay.
std::size_t moved_out(const std::string& body, int trips = 3) {
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(loop_text(body, trips));
  std::vector<Literal> arguments;
  float v = 0.3f;
  for (int k = 0; k < 2; ++k) {
    Literal x(Shape(f32, {16, 16}));
    for (float& f : x.mutable_data<float>()) f = v = 0.9f - 0.77f * v;
    arguments.push_back(std::move(x));
  }
  return testing::keeps_results(module.get(), arguments, move_invariants_out_of_loops);
}

const char* const kDot = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(MoveInvariants, ProductsAndFunctionsMove) {
  EXPECT_EQ(moved_out("  ww = f32[16,16] dot(w, w)" + std::string(kDot) +
                      "  next = f32[16,16] add(x, ww)\n"),
            1u);
  EXPECT_EQ(moved_out("  e = f32[16,16] exponential(w)\n  next = f32[16,16] multiply(x, e)\n"), 1u);
  // Sums, though they are broadcast again in the loop.
  EXPECT_EQ(moved_out("  zero = f32[] constant(0)\n"
                      "  sums = f32[16] reduce(w, zero), dimensions={1}, to_apply=add\n"
                      "  rows = f32[16,16] broadcast(sums), dimensions={0}\n"
                      "  next = f32[16,16] add(x, rows)\n"),
            1u);
}

TEST(MoveInvariants, WhatIsStoredInTheLoopMoves) {
  const std::string twice = "  ww = f32[16,16] add(w, w)\n";
  // A loop over elements makes it as it goes; a product has it stored.
  EXPECT_EQ(moved_out(twice + "  next = f32[16,16] add(x, ww)\n"), 0u);
  EXPECT_EQ(moved_out(twice + "  next = f32[16,16] dot(x, ww)" + kDot), 1u);
}

TEST(MoveInvariants, WhatChangesStays) {
  EXPECT_EQ(moved_out("  xx = f32[16,16] dot(x, x)" + std::string(kDot) +
                      "  next = f32[16,16] add(xx, w)\n"),
            0u);
  // As does what counts trips.
  EXPECT_EQ(moved_out("  c = f32[] convert(i)\n  cs = f32[16,16] broadcast(c), dimensions={}\n"
                      "  e = f32[16,16] exponential(cs)\n  next = f32[16,16] add(x, e)\n"),
            0u);
}

TEST(MoveInvariants, LoopsOfNoTripsAndOfOne) {
  const std::string body =
      "  ww = f32[16,16] dot(w, w)" + std::string(kDot) + "  next = f32[16,16] add(x, ww)\n";
  EXPECT_EQ(moved_out(body, 0), 1u);
  EXPECT_EQ(moved_out(body, 1), 1u);
}

TEST(MoveInvariants, SharedWorkMovesOnce) {
  // Both are read in the loop; the second is made of the first.
  EXPECT_EQ(moved_out("  e = f32[16,16] exponential(w)\n  l = f32[16,16] logistic(e)\n"
                      "  a = f32[16,16] multiply(x, e)\n  next = f32[16,16] add(a, l)\n"),
            2u);
}

TEST(MoveInvariants, LoopsMoveOutOfLoops) {
  // The inner loop makes the same of w in each trip.
  const testing::CountedLoopText inner("i", {{"w", "f32[16,16]"}});
  const std::string text =
      "HloModule m\n" + inner.condition("cond2", 4) +
      inner.body("inner", "  e = f32[16,16] sine(w)\n", "e") +
      loop_text(
          "  zero = s32[] constant(0)\n  start = (s32[], f32[16,16]) tuple(zero, w)\n"
          "  l = (s32[], f32[16,16]) while(start), condition=cond2, body=inner\n"
          "  y = f32[16,16] get-tuple-element(l), index=1\n"
          "  next = f32[16,16] add(x, y)\n",
          3)
          .substr(std::string("HloModule m\n").size());
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const std::vector<Literal> arguments(2, Literal(Shape(f32, {16, 16})));
  EXPECT_EQ(testing::keeps_results(module.get(), arguments, move_invariants_out_of_loops), 1u);
  for (const auto& c : module->computations()) {
    if (c.get() == module->entry()) continue;
    for (const auto& i : c->instructions()) {
      EXPECT_FALSE(i->is(ir::Opcode::while_)) << ir::to_string(*module);
    }
  }
}

class PureTarget : public ir::CustomCallTarget {};

TEST(MoveInvariants, CallsMoveOutOfLoopsThatRun) {
  ir::register_custom_call("test.invariant", std::make_shared<PureTarget>());
  const std::string call = R"(  y = f32[16,16] custom-call(w), custom_call_target="test.invariant"
  next = f32[16,16] add(x, y)
)";
  const auto moved_of = [](const std::string& text) {
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    return move_invariants_out_of_loops(module.get());
  };
  const std::string text = loop_text(call, 3);
  EXPECT_EQ(moved_of(text), 1u);
  // The call may throw, and this loop may not run.
  std::string unknown = text;
  const std::string limit = "trips = s32[] constant(3)";
  unknown.replace(unknown.find(limit), limit.size(),
                  "v = f32[16,16] get-tuple-element(carried), index=1\n"
                  "  e = f32[1,1] slice(v), slice={[0:1], [0:1]}\n"
                  "  f = f32[] reshape(e)\n  trips = s32[] convert(f)");
  EXPECT_EQ(moved_of(unknown), 0u);
  EXPECT_EQ(moved_of(loop_text(call, 0)), 0u);
}

TEST(MoveInvariants, OutOfBothOfTwoLoops) {
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(R"(HloModule m
cond { s = (s32[], f32[16,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
inner { s = (s32[], f32[16,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,16] get-tuple-element(s), index=1
  w = f32[16,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  e = f32[16,16] exponential(w)
  y = f32[16,16] add(x, e)
  ROOT t = (s32[], f32[16,16], f32[16,16]) tuple(j, y, w) }
cond2 { s = (s32[], f32[16,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT p = pred[] compare(i, n), direction=LT }
outer { s = (s32[], f32[16,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,16] get-tuple-element(s), index=1
  w = f32[16,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  start = (s32[], f32[16,16], f32[16,16]) tuple(zero, x, w)
  l = (s32[], f32[16,16], f32[16,16]) while(start), condition=cond, body=inner
  y = f32[16,16] get-tuple-element(l), index=1
  ROOT t = (s32[], f32[16,16], f32[16,16]) tuple(j, y, w) }
ENTRY e { x = f32[16,16] parameter(0)
  w = f32[16,16] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[16,16], f32[16,16]) tuple(zero, x, w)
  l = (s32[], f32[16,16], f32[16,16]) while(s), condition=cond2, body=outer
  ROOT r = f32[16,16] get-tuple-element(l), index=1 })");
  const std::vector<Literal> arguments(2, Literal(Shape(f32, {16, 16})));
  EXPECT_EQ(testing::keeps_results(module.get(), arguments, move_invariants_out_of_loops), 2u);
  const auto& all = module->entry()->instructions();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const auto& i) {
    return i->is(ir::Opcode::exponential);
  })) << ir::to_string(*module);
}

}  // namespace
}  // namespace tessera::passes
