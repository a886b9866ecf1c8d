// SPDX-License-Identifier: Apache-2.0
// Plans for one device in fixed memory: results of the executor, memory in place, loops that swap,
// branches, and what is refused.
#include "src/runtime/fixed_executor.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/plan_maker.h"

namespace tessera::testing {
namespace {

using Floats = std::vector<float>;

std::vector<Floats> run_fixed(FixedExecutor& executor, const std::vector<Floats>& arguments,
                              const std::vector<std::size_t>& sizes) {
  std::vector<const void*> in;
  for (const Floats& a : arguments) in.push_back(a.data());
  std::vector<Floats> results;
  std::vector<void*> out;
  for (const std::size_t n : sizes) results.emplace_back(n);
  for (Floats& r : results) out.push_back(r.data());
  executor.run(in.data(), out.data());
  return results;
}

TEST(FixedExecutor, TakesMemoryInPlaceAndLeavesArguments) {
  PlanMaker m(1);
  const SlotId x = m.parameter(2, 0), y = m.slot(8, 0), z = m.slot(8, 0);
  m.plan.entry.steps = {m.kernel("first", increment_kernel, {x}, y, 2),
                        m.kernel("second", increment_kernel, {y}, z, 2)};
  m.plan.entry.steps[0].release = {x};
  std::get<KernelTask>(m.plan.entry.steps[0].what).reuse = {{0, 0, false, true}};
  std::get<KernelTask>(m.plan.entry.steps[1].what).reuse = {{0, 0, false, true}};
  m.plan.entry.steps[1].release = {y};
  m.plan.results = {z, z};
  finalize(&m.plan);
  FixedExecutor executor(m.plan);
  const Floats given = {1, 2};
  for (int n = 0; n < 3; ++n) {
    const auto out = run_fixed(executor, {given}, {2, 2});
    EXPECT_EQ(out[0], (Floats{3, 4}));
    EXPECT_EQ(out[1], (Floats{3, 4}));
    EXPECT_EQ(given, (Floats{1, 2}));
  }
  EXPECT_EQ(executor.misses(), 0);
}

/// (a, b) = (b, a + 1) while a < limit.
Plan swapping_loop(KernelFunction counts = increment_kernel) {
  PlanMaker m(1);
  const SlotId a = m.parameter(1, 0), b = m.parameter(1, 0), limit = m.parameter(1, 0);
  const SlotId ca = m.slot(4, 0), cb = m.slot(4, 0), go = m.slot(1, 0), next = m.slot(4, 0);
  While loop;
  loop.init = {{a, ca}, {b, cb}};
  loop.condition.steps = {m.kernel("less", less_kernel, {ca, limit}, go, 1)};
  loop.predicate = go;
  Step increment = m.kernel("increment", counts, {ca}, next, 1);
  std::get<KernelTask>(increment.what).reuse = {{0, 0, false, true}};
  increment.release = {ca};
  loop.body.steps = {increment};
  loop.next = {{cb, ca}, {next, cb}};
  Step step = PlanMaker::step("loop", 3);
  step.what = loop;
  m.plan.entry.steps.push_back(step);
  m.plan.results = {ca, cb};
  finalize(&m.plan);
  return m.plan;
}

TEST(FixedExecutor, LoopsThatSwapWhatTheyCarry) {
  const Plan plan = swapping_loop();
  FixedExecutor executor(plan);
  const auto in_general = [&](float a, float b, float limit) {
    const auto out = run(plan, {{floats({a})}, {floats({b})}, {floats({limit})}});
    return std::vector<Floats>{values(out[0][0]), values(out[1][0])};
  };
  for (const float limit : {0.f, 1.f, 5.f, 100.f}) {
    EXPECT_EQ(run_fixed(executor, {{0}, {0.5f}, {limit}}, {1, 1}), in_general(0, 0.5f, limit));
  }
  EXPECT_EQ(run_fixed(executor, {{0}, {0.5f}, {5}}, {1, 1}), (std::vector<Floats>{{5}, {5.5f}}));
  // A result may be an argument as it was given: it would be written over.
  Floats a = {7}, b = {8};
  const Floats limit = {0};
  const void* in[] = {a.data(), b.data(), limit.data()};
  void* swapped[] = {b.data(), a.data()};
  EXPECT_TRUE(executor.passes_overwritten(in, swapped));
  Floats c(1), d(1);
  void* apart[] = {c.data(), d.data()};
  EXPECT_FALSE(executor.passes_overwritten(in, apart));
}

TEST(FixedExecutor, Branches) {
  PlanMaker m(1);
  const SlotId which = m.parameter(1, 0), x = m.parameter(1, 0), out = m.slot(4, 0);
  Conditional conditional;
  conditional.selector = which;
  conditional.boolean = false;
  for (int trips = 1; trips <= 3; ++trips) {
    Branch branch;
    SlotId now = m.slot(4, 0);
    branch.parameters = {{x, now}};
    for (int t = 0; t < trips; ++t) {
      const SlotId next = m.slot(4, 0);
      Step s = m.kernel("increment", increment_kernel, {now}, next, 1);
      s.release = {now};
      branch.block.steps.push_back(s);
      now = next;
    }
    branch.results = {{now, out}};
    conditional.branches.push_back(branch);
  }
  Step step = PlanMaker::step("choose", 4);
  step.what = conditional;
  m.plan.entry.steps.push_back(step);
  m.plan.results = {out};
  finalize(&m.plan);
  FixedExecutor executor(m.plan);
  const std::pair<std::int32_t, float> cases[] = {{0, 1}, {1, 2}, {2, 3}, {9, 3}, {-1, 3}, {0, 1}};
  for (const auto& [index, sum] : cases) {
    float bits;
    std::memcpy(&bits, &index, sizeof bits);
    EXPECT_EQ(run_fixed(executor, {{bits}, {0}}, {1})[0], (Floats{sum})) << index;
  }
}

void failing_kernel(const KernelCall& call) {
  float x;
  std::memcpy(&x, call.inputs[0], sizeof x);
  if (x > 1) throw std::runtime_error("it is more than 1, which is too much for this kernel");
  increment_kernel(call);
}

TEST(FixedExecutor, GoesOnAfterAFailure) {
  PlanMaker m(1);
  const SlotId x = m.parameter(1, 0), y = m.slot(4, 0), z = m.slot(4, 0);
  m.plan.entry.steps = {m.kernel("first", increment_kernel, {x}, y, 1),
                        m.kernel("fails", failing_kernel, {y}, z, 1)};
  m.plan.entry.steps[1].release = {y};
  m.plan.results = {z};
  finalize(&m.plan);
  FixedExecutor executor(m.plan);
  for (int n = 0; n < 5; ++n) {
    try {
      (void)run_fixed(executor, {{1}}, {1});
      FAIL();
    } catch (const RuntimeError& e) {
      EXPECT_NE(e.message().find("too much for this kernel"), std::string::npos) << e.what();
    }
    EXPECT_EQ(run_fixed(executor, {{0}}, {1})[0], (Floats{2}));
  }
}

bool has_memory = true;
void kernel_in_need(const KernelCall& call) {
  if (!has_memory) throw std::runtime_error("there is no memory for what this thread needs");
  increment_kernel(call);
}

TEST(FixedExecutor, GoesOnAfterARehearsalThatFailed) {
  const Plan plan = swapping_loop(kernel_in_need);
  FixedExecutor executor(plan);
  has_memory = false;
  EXPECT_THROW(executor.rehearse(), RuntimeError);
  has_memory = true;
  EXPECT_EQ(run_fixed(executor, {{0}, {0.5f}, {5}}, {1, 1}), (std::vector<Floats>{{5}, {5.5f}}));
}

TEST(FixedExecutor, Refuses) {
  PlanMaker two(2);
  finalize(&two.plan);
  EXPECT_THROW(check_fixed(two.plan), NotImplementedError);
  PlanMaker m(1);
  const SlotId x = m.parameter(1, 0), y = m.slot(4, 0);
  m.plan.entry.steps = {
      PlanMaker::exchange("sum", 12, Exchange::Kind::all_reduce, x, y, {{0}}, 1, 4)};
  finalize(&m.plan);
  try {
    check_fixed(m.plan);
    FAIL();
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("model.cc:12"), std::string::npos) << e.what();
    EXPECT_NE(e.message().find("sum communicates"), std::string::npos) << e.what();
  }
  PlanMaker effects(1);
  const SlotId a = effects.parameter(1, 0), b = effects.slot(4, 0);
  effects.plan.entry.steps = {effects.kernel("print", increment_kernel, {a}, b, 1)};
  std::get<KernelTask>(effects.plan.entry.steps[0].what).has_effects = true;
  finalize(&effects.plan);
  EXPECT_THROW(check_fixed(effects.plan), NotImplementedError);
}

}  // namespace
}  // namespace tessera::testing
