// SPDX-License-Identifier: Apache-2.0
// Plans in several processes, which are threads: each exchange has the bits that one process gives,
// whoever owns the devices, and each value crosses once.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "src/runtime/local_plan.h"
#include "tests/runtime/plan_maker.h"
#include "tests/support/memory_transport.h"

namespace tessera::testing {
namespace {

using Kind = Exchange::Kind;
using Owners = std::vector<std::int32_t>;
using Args = std::vector<std::vector<DeviceBuffer>>;

struct Outcome {
  std::vector<std::vector<float>> values;  ///< of result 0, by device
  std::vector<std::string> errors;         ///< by process
};

Outcome run_in(const Plan& plan, const Args& args, const Owners& owners, int processes,
               RunCounters* counters = nullptr) {
  Outcome out;
  out.values.resize(owners.size());
  std::mutex mutex;
  out.errors = run_processes(
      processes, 1,
      [&](int p) {
        LocalPlan local(plan, owners, tessera::processes(), "plan");
        RunOptions options;
        options.local = &local;
        Args mine = args;
        // Its own memory, which may be used again where it isn't needed any more.
        for (auto& devices : mine) {
          for (std::size_t d = 0; d < devices.size(); ++d) {
            devices[d] = owners[d] == p ? floats(values(devices[d])) : DeviceBuffer();
          }
        }
        const auto results = run(plan, std::move(mine), options, p == 0 ? counters : nullptr);
        const std::lock_guard lock(mutex);
        for (std::size_t d = 0; d < owners.size(); ++d) {
          EXPECT_EQ(bool(results[0][d]), owners[d] == p);
          if (owners[d] == p) out.values[d] = values(results[0][d]);
        }
      },
      std::chrono::seconds(20));
  return out;
}

/// Values whose sums depend on the order.
std::vector<float> uneven(std::int64_t n, int device) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < n; ++i) {
    out.push_back(std::ldexp(float((i * 37 + device * 101) % 1999) / 7, int((i + device) % 23)));
  }
  return out;
}

const std::vector<std::pair<int, Owners>> kOwners = {
    {2, {0, 0, 0, 0, 1, 1, 1, 1}}, {2, {0, 1, 0, 1, 0, 1, 0, 1}}, {4, {0, 0, 1, 1, 2, 2, 3, 3}},
    {3, {2, 0, 1, 1, 2, 0, 0, 0}}, {8, {7, 6, 5, 4, 3, 2, 1, 0}}, {2, {0, 1, 1, 1, 1, 1, 1, 1}}};

void same_bits(const Plan& plan, const Args& args) {
  Args kept = args;
  const auto alone = run(plan, args);
  for (const auto& [processes, owners] : kOwners) {
    const Outcome made = run_in(plan, kept, owners, processes);
    for (const std::string& e : made.errors) EXPECT_EQ(e, "");
    for (std::size_t d = 0; d < owners.size(); ++d) {
      ASSERT_EQ(made.values[d], values(alone[0][d])) << "device " << d << " of " << processes;
    }
  }
}

/// `keys`: which devices hold equal inputs; empty: none.
void check(Kind kind, std::vector<std::vector<std::int32_t>> groups, std::int64_t in_elements,
           std::int64_t out_elements, std::int64_t outer, std::int64_t chunk,
           const std::vector<std::vector<std::int64_t>>& keys = {}) {
  for (const bool dies : {false, true}) {
    PlanMaker m(8);
    const ClassesId inputs = keys.empty() ? 1 : m.classes(keys);
    const SlotId x = m.parameter(in_elements, inputs), y = m.slot(4 * out_elements, 1);
    Step s = PlanMaker::exchange("x", 3, kind, x, y, groups, outer, 4 * chunk);
    std::get<Exchange>(s.what).input_dies = dies;
    s.release = {x};
    m.plan.entry.steps.push_back(std::move(s));
    m.plan.results = {y};
    finalize(&m.plan);
    Args args(1);
    for (std::size_t d = 0; d < 8; ++d) {
      args[0].push_back(floats(uneven(in_elements, keys.empty() ? int(d) : int(keys[d][0]))));
    }
    same_bits(m.plan, args);
  }
}

const std::vector<std::vector<std::int32_t>> kAll = {{0, 1, 2, 3, 4, 5, 6, 7}},
                                             kHalves = {{0, 1, 2, 3}, {4, 5, 6, 7}},
                                             kPairs = {{0, 4}, {5, 1}, {2, 6}, {7, 3}},
                                             kTurns = {{0, 2, 4, 6}, {1, 3, 5, 7}};

TEST(SeveralProcesses, EveryKindOfExchangeHasTheBitsOfOneProcess) {
  for (const auto& groups : {kAll, kHalves, kPairs, kTurns}) {
    const auto n = std::int64_t(groups[0].size());
    check(Kind::all_gather, groups, 6, 6 * n, 1, 6);
    check(Kind::all_gather, groups, 6, 6 * n, 3, 2);
    check(Kind::all_reduce, groups, 6, 6, 1, 6);
    check(Kind::all_reduce, groups, 100'003, 100'003, 1, 100'003);
    check(Kind::reduce_scatter, groups, 5 * n, 5, 1, 5);
    check(Kind::reduce_scatter, groups, 6 * n, 6, 3, 2);
    check(Kind::all_to_all, groups, 5 * n, 5 * n, 1, 5);
    check(Kind::all_to_all, groups, 6 * n, 6 * n, 3, 2);
    check(Kind::collective_broadcast, groups, 5, 5, 1, 5);
  }
  check(Kind::collective_permute, {{0, 1}, {1, 2}, {2, 5}, {5, 0}, {7, 3}}, 5, 5, 1, 5);
  check(Kind::collective_broadcast, {{3, 4}, {7, 0}}, 5, 5, 1, 5);
}

TEST(SeveralProcesses, ValuesThatSeveralDevicesHoldAreSentOnce) {
  const std::vector<std::vector<std::int64_t>> pairs = {{0}, {1}, {2}, {3}, {0}, {1}, {2}, {3}};
  const std::vector<std::vector<std::int64_t>> same(8, std::vector<std::int64_t>{4});
  for (const auto& keys : {pairs, same}) {
    check(Kind::all_gather, kHalves, 6, 24, 3, 2, keys);
    check(Kind::all_reduce, kHalves, 6, 6, 1, 6, keys);
    check(Kind::all_reduce, kTurns, 50'000, 50'000, 1, 50'000, keys);
    check(Kind::all_reduce, kAll, 300'001, 300'001, 1, 300'001, keys);
    check(Kind::reduce_scatter, kAll, 48, 6, 3, 2, keys);
    check(Kind::all_to_all, kHalves, 24, 24, 3, 2, keys);
  }
  // Each of two processes holds all parts, or lacks two that it gets once.
  PlanMaker m(8);
  const SlotId x = m.parameter(6, m.classes(pairs)), y = m.slot(4 * 24, 1);
  m.plan.entry.steps.push_back(PlanMaker::exchange("x", 3, Kind::all_gather, x, y, kHalves, 1, 24));
  m.plan.results = {y};
  finalize(&m.plan);
  (void)run_processes(2, 1, [&](int) {
    const ActiveSet all(m.plan);
    const auto& exchange = std::get<Exchange>(m.plan.entry.steps[0].what);
    LocalPlan blocks(m.plan, {0, 0, 0, 0, 1, 1, 1, 1}, tessera::processes(), "f");
    EXPECT_TRUE(blocks.traffic(exchange, all).empty());
    LocalPlan others(m.plan, {0, 0, 1, 1, 0, 0, 1, 1}, tessera::processes(), "f");
    EXPECT_EQ(others.traffic(exchange, all).sends.size(), 2U);
    EXPECT_EQ(others.traffic(exchange, all).receives.size(), 2U);
  });
}

TEST(SeveralProcesses, SumsInPlaceDontChangeWhatIsSent) {
  // Process 0 adds up devices 0 and 1, and sends what device 0 has to process 2 for device 2.
  const std::vector<std::vector<std::int64_t>> keys = {{0}, {1}, {0}, {2}};
  PlanMaker m(4);
  const SlotId x = m.parameter(6, m.classes(keys));
  const SlotId y = m.slot(4 * 6, m.classes({{0}, {0}, {1}, {1}}));
  Step s = PlanMaker::exchange("x", 3, Kind::all_reduce, x, y, {{0, 1}, {2, 3}}, 1, 4 * 6);
  std::get<Exchange>(s.what).input_dies = true;
  s.release = {x};
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {y};
  finalize(&m.plan);
  Args args(1);
  for (const auto& key : keys) args[0].push_back(floats(uneven(6, int(key[0]))));
  const Args kept = args;
  const auto alone = run(m.plan, std::move(args));
  const Outcome made = run_in(m.plan, kept, {0, 0, 1, 2}, 3);
  for (const std::string& e : made.errors) EXPECT_EQ(e, "");
  for (std::size_t d = 0; d < 4; ++d) EXPECT_EQ(made.values[d], values(alone[0][d])) << d;
}

TEST(SeveralProcesses, TuplesAndGathersOfGathers) {
  PlanMaker m(8);
  std::vector<SlotId> in, out;
  for (int i = 0; i < 4; ++i) in.push_back(m.parameter(3, 1));
  for (int i = 0; i < 4; ++i) out.push_back(m.slot(12, 1));
  Step tuple = PlanMaker::exchange("t", 3, Kind::all_to_all_tuple, in[0], out[0], kTurns, 1, 12);
  auto& exchange = std::get<Exchange>(tuple.what);
  for (std::size_t i = 1; i < 4; ++i) exchange.parts.push_back({in[i], out[i], 1, 12});
  m.plan.entry.steps.push_back(std::move(tuple));
  for (std::size_t i = 0; i < 4; ++i) m.plan.results.push_back(out[3 - i]);
  finalize(&m.plan);
  Args args(4);
  for (int i = 0; i < 4; ++i) {
    for (int d = 0; d < 8; ++d) args[std::size_t(i)].push_back(floats(uneven(3, 10 * i + d)));
  }
  same_bits(m.plan, args);

  PlanMaker g(8);
  const SlotId x = g.parameter(6, 1), y = g.slot(4 * 48, 1);
  Step gather = PlanMaker::exchange("g", 3, Kind::all_gather, x, y, kHalves, 3, 4 * 4);
  auto& last = std::get<Exchange>(gather.what);
  last.before.push_back({kPairs, 3, 8, nullptr});
  last.parts[0] = {x, y, 3, 16};
  g.plan.entry.steps.push_back(std::move(gather));
  g.plan.results = {y};
  finalize(&g.plan);
  Args one(1);
  for (int d = 0; d < 8; ++d) one[0].push_back(floats(uneven(6, d)));
  same_bits(g.plan, one);
}

/// While carried < limit: carried += sum of a count over the group.
Plan loop(std::vector<std::vector<std::int32_t>> groups) {
  PlanMaker m(8);
  const SlotId start = m.parameter(1, 1), limit = m.parameter(1, 1), one = m.parameter(1, 1),
               carried = m.slot(4, 1), predicate = m.slot(1, 1), next = m.slot(4, 1),
               sum = m.slot(4, 1);
  While w;
  w.init = {{start, carried, false}};
  w.condition.steps.push_back(m.kernel("less", less_kernel, {carried, limit}, predicate, 1));
  w.predicate = predicate;
  w.body.steps.push_back(
      PlanMaker::exchange("sum", 7, Kind::all_reduce, one, sum, std::move(groups), 1, 4));
  w.body.steps.push_back(m.kernel("add", add_kernel, {carried, sum}, next, 1));
  w.next = {{next, carried, true}};
  Step s = PlanMaker::step("while.1", 5);
  s.what = std::move(w);
  m.plan.entry.steps.push_back(std::move(s));
  m.plan.results = {carried};
  finalize(&m.plan);
  return m.plan;
}

Args loop_arguments(const std::vector<float>& limits) {
  Args args(3);
  for (const float limit : limits) {
    args[0].push_back(floats({0}));
    args[1].push_back(floats({limit}));
    args[2].push_back(floats({1}));
  }
  return args;
}

TEST(SeveralProcesses, LoopsThatDevicesLeaveApart) {
  same_bits(loop(kPairs), loop_arguments({3, 9, 40, 1, 3, 9, 40, 1}));
  same_bits(loop(kHalves), loop_arguments({3, 3, 3, 3, 50, 50, 50, 50}));
  same_bits(loop(kAll), loop_arguments(std::vector<float>(8, 77)));
}

TEST(SeveralProcesses, APartOfAGroupIsTheSameErrorInAll) {
  const Outcome out =
      run_in(loop(kAll), loop_arguments({9, 9, 9, 9, 9, 9, 9, 20}), {0, 0, 0, 0, 1, 1, 1, 1}, 2);
  for (const std::string& e : out.errors) {
    EXPECT_NE(e.find("device 0 does not take part in all-reduce sum (model.cc:7)"),
              std::string::npos)
        << e;
    EXPECT_NE(e.find("it has left the loop while.1 (model.cc:5)"), std::string::npos) << e;
  }
}

TEST(SeveralProcesses, DifferentProgramsAreAnErrorInAllThatSaysWhoRunsWhat) {
  const Plan one = loop(kAll), other = loop(kHalves);
  const auto errors = run_processes(2, 1, [&](int p) {
    const Plan& mine = p == 0 ? one : other;
    LocalPlan local(mine, {0, 0, 0, 0, 1, 1, 1, 1}, tessera::processes(), p == 0 ? "f" : "g");
    RunOptions options;
    options.local = &local;
    Args args = loop_arguments(std::vector<float>(8, 9));
    for (auto& devices : args) {
      for (std::size_t d = 0; d < 8; ++d) {
        if (int(d) / 4 != p) devices[d] = {};
      }
    }
    (void)run(mine, std::move(args), options);
  });
  for (const std::string& e : errors) {
    EXPECT_NE(e.find("the processes run different programs"), std::string::npos) << e;
    EXPECT_NE(e.find("process 0: 'f' with 1 exchanges; the first that differs: all-reduce sum: 4 "
                     "bytes in 1 groups"),
              std::string::npos)
        << e;
    EXPECT_NE(e.find("process 1: 'g'"), std::string::npos) << e;
  }
}

}  // namespace
}  // namespace tessera::testing
