// SPDX-License-Identifier: Apache-2.0
// Short steps of loops are one step, and compute what they did apart.
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

std::size_t steps_of_body(const ir::Module& module) {
  const codegen::BuiltPlan built = plan_of(module);
  for (const runtime::Step& step : built.plan.entry.steps) {
    if (const auto* loop = std::get_if<runtime::While>(&step.what)) return loop->body.steps.size();
  }
  return 0;
}

/// `lines` make next.1 and next.2 of the carried f32[8,16] a and b, and of their trip n.
void check(const std::string& lines, std::size_t steps) {
  const std::string state = "(s32[], f32[8,16], f32[8,16])";
  const std::string text = R"(HloModule loop
add_up { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
more { s = )" + state + R"( parameter(0)
  n = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT r = pred[] compare(n, five), direction=LT }
body { s = )" + state + R"( parameter(0)
  n = s32[] get-tuple-element(s), index=0
  a = f32[8,16] get-tuple-element(s), index=1
  b = f32[8,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  zero = s32[] constant(0)
  none = f32[] constant(0)
)" + lines + R"(
  ROOT r = )" + state + R"( tuple(next, next.1, next.2) }
ENTRY main {
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  zero = s32[] constant(0)
  all = )" + state + R"( tuple(zero, a, b)
  loop = )" + state + R"( while(all), condition=more, body=body
  a.1 = f32[8,16] get-tuple-element(loop), index=1
  b.1 = f32[8,16] get-tuple-element(loop), index=2
  ROOT out = (f32[8,16], f32[8,16]) tuple(a.1, b.1)
}
)";
  SCOPED_TRACE(text);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  EXPECT_EQ(steps_of_body(*module), steps);
  Random r(1);
  const std::vector<Literal> arguments = {r.literal(DType::f32, {8, 16}),
                                          r.literal(DType::f32, {8, 16})};
  std::vector<Literal> want;
  append_leaves(evaluator::evaluate(*module, arguments), want);
  const std::vector<Literal> got = run_module(*module, arguments);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(difference(got[k], want[k], Program::tolerance(DType::f32, 100)), "");
  }
}

TEST(ShortSteps, OfABodyAreOne) {
  check(R"(
  p = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = f32[8,8] tanh(p)
  next.1 = f32[8,16] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sums = f32[16] reduce(next.1, none), dimensions={0}, to_apply=add_up
  over = f32[8,16] broadcast(sums), dimensions={1}
  next.2 = f32[8,16] subtract(b, over))",
        1);
}

// What changes a part of an array changes the array itself, where nothing else reads it.
TEST(ShortSteps, MayChangeAPartOfAnArray) {
  check(R"(
  row = f32[1,16] dynamic-slice(a, n, zero), dynamic_slice_sizes={1,16}
  t = f32[1,16] sine(row)
  next.1 = f32[8,16] add(a, a)
  next.2 = f32[8,16] dynamic-update-slice(b, t, n, zero))",
        1);
  // Here it is read by others, before and after.
  check(R"(
  row = f32[1,16] dynamic-slice(b, n, zero), dynamic_slice_sizes={1,16}
  t = f32[1,16] sine(row)
  changed = f32[8,16] dynamic-update-slice(b, t, n, zero)
  next.1 = f32[8,16] multiply(b, changed)
  next.2 = f32[8,16] add(changed, a))",
        3);
  check(R"(
  row = f32[1,16] dynamic-slice(a, zero, zero), dynamic_slice_sizes={1,16}
  changed = f32[8,16] dynamic-update-slice(b, row, n, zero)
  again = f32[8,16] dynamic-update-slice(changed, row, zero, zero)
  next.1 = f32[8,16] add(again, changed)
  next.2 = f32[8,16] multiply(again, a))",
        3);
}

// Arrays may change places.
TEST(ShortSteps, MaySwapWhatIsCarried) {
  check(R"(
  next.1 = f32[8,16] sine(b)
  next.2 = f32[8,16] cosine(a))",
        1);
}

}  // namespace
}  // namespace tessera::testing
