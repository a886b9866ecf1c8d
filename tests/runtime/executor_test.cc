// SPDX-License-Identifier: Apache-2.0
// The lockstep executor on plans written by hand.
#include "src/runtime/executor.h"

#include <gtest/gtest.h>

#include "src/base/threads/task_pool.h"
#include "src/runtime/verify_plan.h"
#include "tests/runtime/plan_maker.h"

namespace tessera::testing {
namespace {

using Floats = std::vector<float>;
using Kind = Exchange::Kind;

TEST(Executor, ComputesOncePerClass) {
  PlanMaker m(4);
  const ClassesId pairs = m.classes({{0}, {0}, {1}, {1}});
  const SlotId x = m.parameter(2, pairs), y = m.slot(8, pairs);
  m.plan.entry.steps.push_back(m.kernel("inc", increment_kernel, {x}, y, 2));
  m.plan.results = {y};
  finalize(&m.plan);
  const DeviceBuffer a = floats({1, 2}), b = floats({5, 6});
  const auto out = run(m.plan, {{a, a, b, b}});
  EXPECT_EQ(values(out[0][0]), (Floats{2, 3}));
  EXPECT_EQ(values(out[0][3]), (Floats{6, 7}));
  EXPECT_EQ(out[0][0].memory, out[0][1].memory);
  EXPECT_NE(out[0][0].memory, out[0][2].memory);
  EXPECT_EQ(values(a), (Floats{1, 2}));
}

Plan increment_in_place(std::int64_t devices) {
  PlanMaker m(devices);
  const SlotId x = m.parameter(2, 1), y = m.slot(8, 1);
  Step s = m.kernel("inc", increment_kernel, {x}, y, 2);
  std::get<KernelTask>(s.what).reuse = {{0, 0, false, true}};
  s.release = {x};
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {y};
  finalize(&m.plan);
  return m.plan;
}

TEST(Executor, ReusesOnlyMemoryWithoutOtherHandles) {
  const Plan plan = increment_in_place(2);
  DeviceBuffer given = floats({1, 2}), kept = floats({3, 4});
  const DeviceMemory* given_storage = given.memory.get();
  std::vector<std::vector<DeviceBuffer>> args(1);
  args[0].push_back(std::move(given));
  args[0].push_back(kept);
  const auto out = run(plan, std::move(args));
  EXPECT_EQ(out[0][0].memory.get(), given_storage);
  EXPECT_NE(out[0][1].memory, kept.memory);
  EXPECT_EQ(values(out[0][0]), (Floats{2, 3}));
  EXPECT_EQ(values(out[0][1]), (Floats{4, 5}));
  EXPECT_EQ(values(kept), (Floats{3, 4}));
}

TEST(Executor, OneStorageGivenTwiceIsNotOverwritten) {
  const Plan plan = increment_in_place(2);
  std::vector<std::vector<DeviceBuffer>> args(1);
  args[0].assign(2, floats({1, 2}));
  const auto out = run(plan, std::move(args));
  EXPECT_EQ(values(out[0][0]), (Floats{2, 3}));
  EXPECT_EQ(values(out[0][1]), (Floats{2, 3}));
}

TEST(Executor, LargeWorkIsTiled) {
  for (const std::int64_t devices : {1, 2, 3, 8}) {
    PlanMaker m(devices);
    const std::int64_t n = 100'003;
    const SlotId x = m.parameter(n, 1), y = m.slot(4 * n, 1), z = m.slot(4 * n, 1);
    m.plan.entry.steps.push_back(m.kernel("a", increment_kernel, {x}, y, n, 1e6));
    m.plan.entry.steps.push_back(m.kernel("b", add_kernel, {x, y}, z, n, 1e6));
    m.plan.results = {z};
    finalize(&m.plan);
    std::vector<std::vector<DeviceBuffer>> args(1);
    for (std::int64_t d = 0; d < devices; ++d) args[0].push_back(floats(Floats(n, float(d))));
    const auto out = run(m.plan, args);
    for (std::int64_t d = 0; d < devices; ++d) {
      EXPECT_EQ(values(out[0][std::size_t(d)]), Floats(n, float(2 * d + 1)));
    }
  }
}

TEST(Executor, ReplicasAreTrustedUnlessChecked) {
  PlanMaker m(2);
  const SlotId x = m.parameter(1, 0);
  m.plan.results = {x};
  finalize(&m.plan);
  const auto out = run(m.plan, {{floats({1}), floats({2})}});
  EXPECT_EQ(values(out[0][1]), (Floats{1}));
  try {
    run(m.plan, {{floats({1}), floats({2})}}, {true});
    FAIL() << "unequal replicas were not noticed";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("argument 0 is replicated over devices 0 and 1"),
              std::string::npos)
        << e.what();
  }
  EXPECT_NO_THROW(run(m.plan, {{floats({1}), floats({1})}}, {true}));
}

TEST(Executor, WrongArgumentsAreErrors) {
  const Plan plan = increment_in_place(2);
  EXPECT_THROW(run(plan, {}), RuntimeError);
  EXPECT_THROW(run(plan, {{floats({1, 2})}}), RuntimeError);
  EXPECT_THROW(run(plan, {{floats({1, 2}), floats({1})}}), RuntimeError);
  EXPECT_THROW(run(plan, {{floats({1, 2}), DeviceBuffer()}}), RuntimeError);
}

// -- Exchanges --------------------------------------------------------------------------------

std::vector<Floats> exchanged(Kind kind, std::vector<std::vector<std::int32_t>> groups,
                              const std::vector<Floats>& in, std::int64_t out_elements,
                              std::int64_t outer, std::int64_t chunk_elements,
                              RunCounters* counters = nullptr, bool dies = false) {
  PlanMaker m(std::int64_t(in.size()));
  const SlotId x = m.parameter(std::int64_t(in[0].size()), 1), y = m.slot(4 * out_elements, 1);
  Step s = PlanMaker::exchange("x", 3, kind, x, y, std::move(groups), outer, 4 * chunk_elements);
  std::get<Exchange>(s.what).input_dies = dies;
  s.release = {x};
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {y};
  finalize(&m.plan);
  std::vector<std::vector<DeviceBuffer>> args(1);
  for (const Floats& f : in) args[0].push_back(floats(f));
  std::vector<Floats> out;
  const auto results = run(m.plan, std::move(args), {}, counters);
  for (const DeviceBuffer& b : results[0]) out.push_back(values(b));
  return out;
}

TEST(Exchange, AllReduceAddsWithinGroups) {
  for (const bool dies : {false, true}) {
    RunCounters counters;
    const auto out =
        exchanged(Kind::all_reduce, {{0, 2}, {3, 1}}, {{1, 2}, {10, 20}, {100, 200}, {1000, 2000}},
                  2, 1, 2, &counters, dies);
    EXPECT_EQ(out[0], (Floats{101, 202}));
    EXPECT_EQ(out[2], out[0]);
    EXPECT_EQ(out[1], (Floats{1010, 2020}));
    EXPECT_EQ(out[3], out[1]);
    EXPECT_EQ(counters.bytes[std::size_t(Kind::all_reduce)], 2 * 8 * 1 / 2);
    EXPECT_EQ(counters.count[std::size_t(Kind::all_reduce)], 1);
  }
}

TEST(Exchange, AllGatherFollowsTheGroupsOrder) {
  RunCounters counters;
  // Shards of 2x1, gathered along the second dim.
  const auto out = exchanged(Kind::all_gather, {{1, 0}}, {{1, 2}, {3, 4}}, 4, 2, 1, &counters);
  EXPECT_EQ(out[0], (Floats{3, 1, 4, 2}));
  EXPECT_EQ(out[1], out[0]);
  EXPECT_EQ(counters.bytes[std::size_t(Kind::all_gather)], 8);
}

TEST(Exchange, ReduceScatterGivesEachItsPart) {
  RunCounters counters;
  const auto rows = exchanged(Kind::reduce_scatter, {{0, 1}}, {{1, 2, 3, 4}, {10, 20, 30, 40}}, 2,
                              1, 2, &counters);
  EXPECT_EQ(rows[0], (Floats{11, 22}));
  EXPECT_EQ(rows[1], (Floats{33, 44}));
  EXPECT_EQ(counters.bytes[std::size_t(Kind::reduce_scatter)], 8);
  const auto columns =
      exchanged(Kind::reduce_scatter, {{0, 1}}, {{1, 2, 3, 4}, {10, 20, 30, 40}}, 2, 2, 1);
  EXPECT_EQ(columns[0], (Floats{11, 33}));
  EXPECT_EQ(columns[1], (Floats{22, 44}));
}

TEST(Exchange, AllToAllTransposesParts) {
  const auto out = exchanged(Kind::all_to_all, {{0, 1}}, {{1, 2, 3, 4}, {5, 6, 7, 8}}, 4, 1, 2);
  EXPECT_EQ(out[0], (Floats{1, 2, 5, 6}));
  EXPECT_EQ(out[1], (Floats{3, 4, 7, 8}));
}

TEST(Exchange, PermuteFillsWithZeros) {
  RunCounters counters;
  const auto out =
      exchanged(Kind::collective_permute, {{0, 1}, {1, 2}}, {{1}, {2}, {3}}, 1, 1, 1, &counters);
  EXPECT_EQ(out[0], (Floats{0}));
  EXPECT_EQ(out[1], (Floats{1}));
  EXPECT_EQ(out[2], (Floats{2}));
  EXPECT_EQ(counters.bytes[std::size_t(Kind::collective_permute)], 4);
}

TEST(Exchange, BroadcastTakesTheFirstMember) {
  const auto out = exchanged(Kind::collective_broadcast, {{2, 0}}, {{1}, {2}, {3}}, 1, 1, 1);
  EXPECT_EQ(out[0], (Floats{3}));
  EXPECT_EQ(out[1], (Floats{0}));
  EXPECT_EQ(out[2], (Floats{3}));
}

TEST(Exchange, LargeArraysAreSplitAmongWorkers) {
  const std::int64_t n = 1 << 18;
  std::vector<Floats> in;
  for (int d = 0; d < 4; ++d) in.emplace_back(std::size_t(n), float(1 << d));
  for (const bool dies : {false, true}) {
    const auto sum = exchanged(Kind::all_reduce, {{0, 1, 2, 3}}, in, n, 1, n, nullptr, dies);
    for (const Floats& f : sum) EXPECT_EQ(f, Floats(std::size_t(n), 15));
  }
  const auto all = exchanged(Kind::all_gather, {{0, 1, 2, 3}}, in, 4 * n, 1, n);
  EXPECT_EQ(all[3][std::size_t(2 * n)], 4);
  EXPECT_EQ(all[0][std::size_t(4 * n - 1)], 8);
}

// -- Control flow per device ------------------------------------------------------------------

/// while (x < limit) x = inner(x + 1), with an all-reduce over the given groups in the body if any.
Plan counting_loop(std::int64_t devices, std::vector<std::vector<std::int32_t>> groups,
                   std::int64_t trips = 0) {
  PlanMaker m(devices);
  const SlotId x = m.parameter(1, 1), limit = m.parameter(1, 1), carried = m.slot(4, 1),
               predicate = m.slot(1, 1), next = m.slot(4, 1), reduced = m.slot(4, 1);
  While loop;
  loop.init = {{x, carried, false}};
  loop.condition.steps.push_back(m.kernel("less", less_kernel, {carried, limit}, predicate, 1));
  loop.predicate = predicate;
  loop.body.steps.push_back(m.kernel("inc", increment_kernel, {carried}, next, 1));
  if (!groups.empty()) {
    loop.body.steps.push_back(
        PlanMaker::exchange("sum.2", 7, Kind::all_reduce, next, reduced, std::move(groups), 1, 4));
  }
  loop.next = {{loop.body.steps.size() > 1 ? reduced : next, carried, true}};
  loop.trips = trips;
  Step s = PlanMaker::step("while.1", 5);
  s.what = std::move(loop);
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {carried};
  finalize(&m.plan);
  return m.plan;
}

void check_different_trips(const Plan& plan) {
  const auto out = run(plan, {{floats({0}), floats({5}), floats({2}), floats({9})},
                              {floats({3}), floats({3}), floats({7}), floats({9})}});
  EXPECT_EQ(values(out[0][0]), (Floats{3}));
  EXPECT_EQ(values(out[0][1]), (Floats{5}));
  EXPECT_EQ(values(out[0][2]), (Floats{7}));
  EXPECT_EQ(values(out[0][3]), (Floats{9}));
}

TEST(ControlFlow, DevicesLeaveALoopAtDifferentTrips) {
  check_different_trips(counting_loop(4, {}));
}

TEST(ControlFlow, ALongLoopOfShortStepsRunsApart) {
  const Plan plan = counting_loop(4, {}, 1 << 20);
  check_different_trips(plan);
  // A limit that all devices share is read by all groups, and still there afterwards.
  PlanMaker m(8);
  const SlotId x = m.parameter(1, 1), limit = m.parameter(1, 0), carried = m.slot(4, 1),
               predicate = m.slot(1, 1), next = m.slot(4, 1), sum = m.slot(4, 1);
  While loop;
  loop.init = {{x, carried, false}};
  loop.condition.steps.push_back(m.kernel("less", less_kernel, {carried, limit}, predicate, 1));
  loop.predicate = predicate;
  loop.body.steps.push_back(m.kernel("inc", increment_kernel, {carried}, next, 1));
  loop.next = {{next, carried, true}};
  loop.trips = 1 << 20;
  Step s = PlanMaker::step("while.1", 5);
  s.what = std::move(loop);
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.entry.steps.push_back(m.kernel("add", add_kernel, {carried, limit}, sum, 1));
  m.plan.results = {sum};
  finalize(&m.plan);
  std::vector<DeviceBuffer> starts, limits;
  const DeviceBuffer shared = floats({100});
  for (int d = 0; d < 8; ++d) {
    starts.push_back(floats({float(20 * d)}));
    limits.push_back(shared);
  }
  const auto out = run(m.plan, {starts, limits});
  for (int d = 0; d < 8; ++d) {
    EXPECT_EQ(values(out[0][std::size_t(d)]), (Floats{100 + std::max(100.0F, 20.0F * float(d))}));
  }
}

TEST(ControlFlow, GroupsThatStayTogetherMayCommunicate) {
  // Devices 0 and 1 make one trip, 2 and 3 two.
  const Plan plan = counting_loop(4, {{0, 1}, {2, 3}});
  const auto out = run(plan, {{floats({0}), floats({1}), floats({0}), floats({0})},
                              {floats({3}), floats({3}), floats({4}), floats({4})}});
  EXPECT_EQ(values(out[0][0]), (Floats{3}));
  EXPECT_EQ(values(out[0][1]), (Floats{3}));
  EXPECT_EQ(values(out[0][2]), (Floats{6}));
  EXPECT_EQ(values(out[0][3]), (Floats{6}));
}

TEST(ControlFlow, APartOfAGroupIsAnErrorThatNamesBothLines) {
  const Plan plan = counting_loop(2, {{0, 1}});
  try {
    run(plan, {{floats({0}), floats({5})}, {floats({3}), floats({3})}});
    FAIL() << "a collective ran with a part of its group";
  } catch (const RuntimeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("model.cc:7"), std::string::npos) << text;
    EXPECT_NE(text.find("while.1 (model.cc:5)"), std::string::npos) << text;
    EXPECT_NE(text.find("device 1"), std::string::npos) << text;
    EXPECT_NE(text.find("{0,1}"), std::string::npos) << text;
  }
}

Plan branching(bool with_exchange) {
  PlanMaker m(2);
  const SlotId selector = m.slot(1, 1), x = m.parameter(1, 1), zero = m.parameter(1, 1),
               result = m.slot(4, 1);
  m.plan.entry.steps.push_back(m.kernel("less", less_kernel, {x, zero}, selector, 1));
  Conditional c;
  c.selector = selector;
  for (int b = 0; b < 2; ++b) {
    Branch branch;
    const SlotId own = m.slot(4, 1), more = m.slot(4, 1), last = m.slot(4, 1);
    branch.parameters = {{x, own, true}};
    branch.block.steps.push_back(m.kernel("a", increment_kernel, {own}, more, 1));
    if (b == 1 && with_exchange) {
      branch.block.steps.push_back(
          PlanMaker::exchange("sum", 7, Kind::all_reduce, more, last, {{0, 1}}, 1, 4));
    } else {
      branch.block.steps.push_back(
          m.kernel("b", b == 0 ? increment_kernel : add_kernel,
                   b == 0 ? std::vector<SlotId>{more} : std::vector<SlotId>{more, more}, last, 1));
    }
    branch.results = {{last, result, true}};
    c.branches.push_back(std::move(branch));
  }
  Step s = PlanMaker::step("conditional.4", 6);
  s.what = std::move(c);
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {result};
  finalize(&m.plan);
  return m.plan;
}

TEST(ControlFlow, DevicesTakeDifferentBranches) {
  const auto out = run(branching(false), {{floats({-5}), floats({5})}, {floats({0}), floats({0})}});
  EXPECT_EQ(values(out[0][0]), (Floats{-3}));
  EXPECT_EQ(values(out[0][1]), (Floats{12}));
}

TEST(ControlFlow, OneArrayTakenByBothBranchesIsNotOverwritten) {
  const DeviceBuffer shared = floats({1});
  const auto out = run(branching(false), {{shared, shared}, {floats({2}), floats({0})}});
  EXPECT_EQ(values(out[0][0]), (Floats{3}));
  EXPECT_EQ(values(out[0][1]), (Floats{4}));
  EXPECT_EQ(values(shared), (Floats{1}));
}

TEST(ControlFlow, ACollectiveInOneBranchIsAnErrorThatNamesBothLines) {
  const Plan plan = branching(true);
  const auto together = run(plan, {{floats({5}), floats({7})}, {floats({0}), floats({0})}});
  EXPECT_EQ(values(together[0][0]), (Floats{14}));
  try {
    run(plan, {{floats({-5}), floats({5})}, {floats({0}), floats({0})}});
    FAIL() << "a collective ran with a part of its group";
  } catch (const RuntimeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("model.cc:7"), std::string::npos) << text;
    EXPECT_NE(text.find("another branch of conditional.4 (model.cc:6)"), std::string::npos) << text;
  }
}

TEST(Executor, APlanThatReadsWhatNothingMadeIsFound) {
  Plan plan = counting_loop(4, {{0, 1}, {2, 3}});
  EXPECT_NO_THROW(verify_plan(plan));
  PlanMaker maker(1);
  const SlotId in = maker.parameter(1, 0), made = maker.slot(4, 0), out = maker.slot(4, 0);
  maker.plan.entry.steps = {maker.kernel("late", increment_kernel, {made}, out, 1),
                            maker.kernel("early", increment_kernel, {in}, made, 1)};
  maker.plan.results = {out};
  finalize(&maker.plan);
  try {
    verify_plan(maker.plan);
    FAIL() << "the order of steps isn't looked at";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("late reads %1"), std::string::npos) << e.what();
  }
  std::swap(maker.plan.entry.steps[0], maker.plan.entry.steps[1]);
  EXPECT_NO_THROW(verify_plan(maker.plan));
  maker.plan.entry.steps[0].release = {made};
  EXPECT_THROW(verify_plan(maker.plan), InternalError);
}

TEST(Executor, RunsOfOnePlanMayOverlap) {
  const Plan plan = counting_loop(4, {{0, 1}, {2, 3}});
  parallel_for(8, [&](std::int64_t) {
    for (int k = 0; k < 20; ++k) {
      const auto out = run(plan, {{floats({0}), floats({1}), floats({0}), floats({0})},
                                  {floats({3}), floats({3}), floats({4}), floats({4})}});
      if (values(out[0][2]) != Floats{6}) throw InternalError("wrong result");
    }
  });
}

}  // namespace
}  // namespace tessera::testing
