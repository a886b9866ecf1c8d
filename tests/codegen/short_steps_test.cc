// SPDX-License-Identifier: Apache-2.0
// Loops of short steps are one step, and so are short steps of other loops. They compute what they
// did apart.
#include "src/codegen/kernels/chains/step_program.h"
#include "src/codegen/kernels/expressions/loop_nest.h"
#include "src/codegen/plan/plan_builder.h"
#include "tests/codegen/random_case.h"
#include "tests/support/loop_text.h"

namespace tessera::testing {
namespace {

/// 0: there is no loop.
std::size_t steps_of_body(const ir::Module& module) {
  const codegen::BuiltPlan built = plan_of(module);
  for (const runtime::Step& step : built.plan.entry.steps) {
    if (const auto* loop = std::get_if<runtime::While>(&step.what)) return loop->body.steps.size();
  }
  return 0;
}

/// `lines` make next.1 and next.2 of the carried f32[8,16] a and b, and of their trip n. `rest`:
/// carried as well, of that shape. Results are a and b.
std::string loop_of(const std::string& lines, const std::string& rest, const std::string& next,
                    int trips) {
  const CountedLoopText loop("n", {{"a", "f32[8,16]"}, {"b", "f32[8,16]"}, {"c", rest}});
  return R"(HloModule loop
add_up { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
)" + loop.condition("condition", trips) +
         loop.body("body",
                   "  zero = s32[] constant(0)\n  none = f32[] constant(0)\n" + lines +
                       "\n  next.3 = " + rest + next + "\n",
                   "next.1, next.2, next.3") +
         R"(ENTRY main {
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  none = f32[] constant(0)
  c = )" +
         rest + " broadcast(none), dimensions={}\n" + loop.loop("loop", "a, b, c") +
         R"(  a.1 = f32[8,16] get-tuple-element(loop), index=1
  b.1 = f32[8,16] get-tuple-element(loop), index=2
  ROOT out = (f32[8,16], f32[8,16], f32[8,16]) tuple(a.1, b.1, a)
}
)";
}

void check_module(const std::string& text, std::size_t steps) {
  SCOPED_TRACE(text);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  EXPECT_EQ(steps_of_body(*module), steps);
  Random r(1);
  const std::vector<Literal> arguments = {r.literal(DType::f32, {8, 16}),
                                          r.literal(DType::f32, {8, 16})};
  expect_results(*module, arguments, evaluator::evaluate(*module, arguments), 100);
}

/// In a loop that has a long step besides, `steps` are left of the others. By themselves they are
/// one step with their loop.
void check(const std::string& lines, std::size_t steps) {
  check_module(loop_of(lines, "f32[256,256]",
                       " dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 5),
               steps + 1);
  for (const int trips : {5, 1, 0}) {
    check_module(loop_of(lines, "f32[]", " add(c, none)", trips), 0);
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

/// Every link of the loop that is the module's only step is a loop of which code can be made.
void expect_code_for_all(const std::string& text) {
  SCOPED_TRACE(text);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const codegen::PlannedProgram planned = codegen::plan_program(*module);
  std::size_t links = 0;
  for (const runtime::Step& step : planned.built.plan.entry.steps) {
    const auto* task = std::get_if<runtime::KernelTask>(&step.what);
    const auto* steps =
        task == nullptr ? nullptr
                        : planned.kernels.at(task->kernel).body.as<codegen::KernelBody::Steps>();
    if (steps == nullptr) continue;
    codegen::for_each_link(steps->program->steps, [&](const auto& link) {
      ++links;
      const codegen::LoopExpr* loop = link.kernel.body.loop();
      EXPECT_TRUE(loop != nullptr && !codegen::nest_of(*loop, true).any_made) << link.kernel.key;
    });
  }
  EXPECT_GT(links, 0U);
}

// Rows that are computed and put together are made where they stand, with what is done to all.
TEST(ShortSteps, MakePartsOfAnArray) {
  const std::string parts = R"(
  top = f32[3,16] slice(b), slice={[0:3], [0:16]}
  rest = f32[5,16] slice(b), slice={[3:8], [0:16]}
  squares = f32[3,16] multiply(top, top)
  negated = f32[5,16] negate(rest)
)";
  // They read rows that others write, the same ones, and those of two concatenations.
  for (const std::string lines : {R"(
  turned = f32[8,16] concatenate(negated, squares), dimensions={0}
  next.1 = f32[8,16] add(a, a)
  next.2 = f32[8,16] add(b, turned))",
                                  R"(
  kept = f32[8,16] concatenate(squares, negated), dimensions={0}
  next.1 = f32[8,16] add(a, a)
  next.2 = f32[8,16] add(b, kept))",
                                  R"(
  more = f32[3,16] add(top, top)
  sizes = f32[5,16] abs(rest)
  kept = f32[8,16] concatenate(more, sizes), dimensions={0}
  turned = f32[8,16] concatenate(negated, squares), dimensions={0}
  rows = s32[8,16] iota(), iota_dimension=0
  numbers = f32[8,16] convert(rows)
  sum = f32[8,16] add(turned, kept)
  next.1 = f32[8,16] multiply(sum, numbers)
  next.2 = f32[8,16] add(b, b))"}) {
    check(parts + lines, 1);
    expect_code_for_all(loop_of(parts + lines, "f32[]", " add(c, none)", 5));
  }
}

// Arrays may change places.
TEST(ShortSteps, MaySwapWhatIsCarried) {
  check(R"(
  next.1 = f32[8,16] sine(b)
  next.2 = f32[8,16] cosine(a))",
        1);
  check_module(loop_of(R"(
  next.1 = f32[8,16] add(b, b)
  next.2 = f32[8,16] copy(a))",
                       "f32[]", " add(c, none)", 5),
               0);
}

// Kernels that aren't loops over elements are called: here a sort, and a loop in the loop.
TEST(ShortSteps, MayBeOfAnyKind) {
  check_module(loop_of(R"(
  next.1 = f32[8,16] sort(b), dimensions={1}, to_apply=less
  over = f32[8,16] broadcast(c), dimensions={}
  next.2 = f32[8,16] subtract(a, over))",
                       "f32[]", " reduce(next.2, none), dimensions={0,1}, to_apply=add_up", 5)
                   .insert(15, R"(less { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT }
)"),
               0);
  check_module(loop_of(R"(
  inner = (s32[], f32[8,16], f32[8,16]) tuple(zero, a, b)
  made = (s32[], f32[8,16], f32[8,16]) while(inner), condition=inner_more, body=inner_body
  next.1 = f32[8,16] get-tuple-element(made), index=1
  next.2 = f32[8,16] get-tuple-element(made), index=2)",
                       "f32[]", " add(c, none)", 3)
                   .insert(15, R"(inner_more { s = (s32[], f32[8,16], f32[8,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  trips = s32[] constant(4)
  ROOT r = pred[] compare(n, trips), direction=LT }
inner_body { s = (s32[], f32[8,16], f32[8,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  a = f32[8,16] get-tuple-element(s), index=1
  b = f32[8,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  zero = s32[] constant(0)
  row = f32[1,16] dynamic-slice(a, n, zero), dynamic_slice_sizes={1,16}
  next.2 = f32[8,16] dynamic-update-slice(b, row, n, zero)
  next.1 = f32[8,16] add(b, b)
  ROOT r = (s32[], f32[8,16], f32[8,16]) tuple(next, next.1, next.2) }
)"),
               0);
}

// A branch may change a part of what it is given, which others need as it was.
TEST(ShortSteps, MayBeInBranches) {
  const std::string branches = R"(pair_up { s = (f32[8,16], f32[8,16], s32[]) parameter(0)
  a = f32[8,16] get-tuple-element(s), index=0
  b = f32[8,16] get-tuple-element(s), index=1
  r = f32[8,16] add(a, b)
  ROOT out = (f32[8,16], f32[8,16]) tuple(r, a) }
change { s = (f32[8,16], f32[8,16], s32[]) parameter(0)
  a = f32[8,16] get-tuple-element(s), index=0
  b = f32[8,16] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  row = f32[1,16] dynamic-slice(a, n, zero), dynamic_slice_sizes={1,16}
  r = f32[8,16] dynamic-update-slice(b, row, n, zero)
  ROOT out = (f32[8,16], f32[8,16]) tuple(r, r) }
leave { s = (f32[8,16], f32[8,16], s32[]) parameter(0)
  a = f32[8,16] get-tuple-element(s), index=0
  b = f32[8,16] get-tuple-element(s), index=1
  ROOT out = (f32[8,16], f32[8,16]) tuple(b, a) }
)";
  const std::string results = R"(
  made.1 = f32[8,16] get-tuple-element(made), index=0
  made.2 = f32[8,16] get-tuple-element(made), index=1
  next.1 = f32[8,16] subtract(made.1, b)
  next.2 = f32[8,16] sine(made.2))";
  const std::string given = "\n  given = (f32[8,16], f32[8,16], s32[]) tuple(a, b, n)";
  // Out of range, the last branch is taken.
  check_module(loop_of(given + R"(
  index = s32[] subtract(n, one)
  made = (f32[8,16], f32[8,16]) conditional(index, given, given, given), branch_computations={pair_up, change, leave})" +
                           results,
                       "f32[]", " add(c, none)", 5)
                   .insert(15, branches),
               0);
  check_module(loop_of(given + R"(
  two = s32[] constant(2)
  less = pred[] compare(n, two), direction=LT
  made = (f32[8,16], f32[8,16]) conditional(less, given, given), true_computation=change, false_computation=pair_up)" +
                           results,
                       "f32[]", " add(c, none)", 5)
                   .insert(15, branches),
               0);
}

// What is carried is changed behind those that read what it was: it stays where it is, and the loop
// is one step although a copy of it would be too long for that.
TEST(ShortSteps, ChangeWhatIsCarriedLast) {
  check_module(R"(HloModule loop
add_up { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
more { s = (s32[], f32[8,16], f32[8,16], f32[8,16,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  trips = s32[] constant(5)
  ROOT r = pred[] compare(n, trips), direction=LT }
body { s = (s32[], f32[8,16], f32[8,16], f32[8,16,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  a = f32[8,16] get-tuple-element(s), index=1
  b = f32[8,16] get-tuple-element(s), index=2
  c = f32[8,16,16] get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(n, one)
  over = f32[8,16,16] broadcast(b), dimensions={0,2}
  next.3 = f32[8,16,16] add(c, over)
  next.1 = f32[8,16] dot(a, c), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  next.2 = f32[8,16] tanh(b)
  ROOT r = (s32[], f32[8,16], f32[8,16], f32[8,16,16]) tuple(next, next.1, next.2, next.3) }
ENTRY main {
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  c = f32[8,16,16] broadcast(a), dimensions={0,2}
  zero = s32[] constant(0)
  all = (s32[], f32[8,16], f32[8,16], f32[8,16,16]) tuple(zero, a, b, c)
  loop = (s32[], f32[8,16], f32[8,16], f32[8,16,16]) while(all), condition=more, body=body
  a.1 = f32[8,16] get-tuple-element(loop), index=1
  c.1 = f32[8,16,16] get-tuple-element(loop), index=3
  ROOT out = (f32[8,16], f32[8,16,16], f32[8,16]) tuple(a.1, c.1, a)
}
)",
               0);
}

}  // namespace
}  // namespace tessera::testing
