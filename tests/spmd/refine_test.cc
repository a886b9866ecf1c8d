// SPDX-License-Identifier: Apache-2.0
// Shardings of intermediate arrays that are found by trying whole programs.
#include "src/spmd/refine/refine.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <set>

#include "src/base/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/collectives/count.h"
#include "src/spmd/propagation/propagate.h"
#include "src/spmd/refine/given_work.h"
#include "tests/spmd/partition_case.h"
#include "tests/support/two_users.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

constexpr const char *kBatch = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
                     *kBothDims = "{devices=[2,4]<=[8]}", *kAllColumns = "{devices=[1,8]<=[8]}",
                     *kXRows = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                     *kYColumns = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";

/// A network and its gradients. Its batch and its weights, w and v, are split along axes of their
/// own, so that there are several good ways to go.
std::unique_ptr<ir::Module> parse_network(const std::string& w, const std::string& v) {
  return parse_entry("x = f32[32,64] parameter(0), sharding=" + std::string(kBatch) +
                     "\n w = f32[64,128] parameter(1), sharding=" + w +
                     "\n v = f32[128,64] parameter(2), sharding=" + v + R"(
    h = f32[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[32,128] tanh(h)
    y = f32[32,64] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    dy = f32[32,64] subtract(y, x)
    dv = f32[128,64] dot(t, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    dt = f32[32,128] dot(dy, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
    dh = f32[32,128] multiply(dt, t)
    dw = f32[64,128] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    ROOT r = (f32[64,128], f32[128,64]) tuple(dw, dv), sharding={)" +
                     w + ", " + v + "}");
}

double bytes_of(std::unique_ptr<ir::Module> propagated) {
  return spmd::count_communication(*spmd::partition(*propagated, {}, nullptr)).total_bytes;
}

TEST(Refine, AnOpenResultIsShardedAsItWasComputed) {
  const std::string step = R"(
    p = f32[64,64] parameter(0), sharding={devices=[2,4]<=[8]}
    g = f32[64,64] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0)}
    ROOT n = f32[64,64] subtract(p, g))";
  const PartitionCase open = check_refined(parse_entry(step));
  EXPECT_EQ(open.count(Opcode::all_gather), 0) << open.text;
  EXPECT_LE(open.bytes(), 3 * 64 * 64 * 4 / 8);
  // What the program states holds.
  const PartitionCase stated = check_refined(parse_entry(step + ", sharding={replicated}"));
  EXPECT_NE(stated.text.find("all-gather"), std::string::npos) << stated.text;
}

TEST(Refine, OneGatherServesTwoDots) {
  PartitionCase c = check_refined(parse_entry(kTwoUsers), 1e-3);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.bytes(), 32 * 64 * 4 * 7 / 8.0);
  // One op at a time would move the first dot's operand and its result as well.
  auto alone = parse_entry(kTwoUsers);
  spmd::propagate(alone.get());
  EXPECT_GT(bytes_of(std::move(alone)), c.bytes());
}

TEST(Refine, WhatALoopSlicesIsSplitByColumns) {
  auto module = ir::parse_hlo(R"(HloModule m, num_partitions=8
    cond { p = (s32[], f32[16,64], f32[64]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(16)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[16,64], f32[64]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      x = f32[16,64] get-tuple-element(p), index=1
      s = f32[64] get-tuple-element(p), index=2
      zero = s32[] constant(0)
      row = f32[1,64] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,64}
      flat = f32[64] reshape(row)
      sum = f32[64] add(s, flat)
      one = s32[] constant(1)
      next = s32[] add(i, one)
      ROOT t = (s32[], f32[16,64], f32[64]) tuple(next, x, sum) }
    ENTRY e { x = f32[16,64] parameter(0), sharding={devices=[8,1]<=[8]}
      s = f32[64] parameter(1), sharding={replicated}
      zero = s32[] constant(0)
      t = (s32[], f32[16,64], f32[64]) tuple(zero, x, s)
      w = (s32[], f32[16,64], f32[64]) while(t), condition=cond, body=body,
        backend_config={"known_trip_count":{"n":"16"}}
      ROOT r = f32[64] get-tuple-element(w), index=2, sharding={replicated} })");
  PartitionCase c = check_refined(std::move(module));
  const double gathered = 16 * 64 * 4 * 7 / 8.0;
  // Split by columns, the rows are exchanged once and the sums gathered.
  EXPECT_LT(spmd::count_communication(*c.device).total_bytes, gathered / 2) << c.text;
}

// Each of the arrays that a loop goes through row by row would have to lie by columns for itself;
// what they are made of moves instead.
TEST(Refine, WhatSeveralArraysAreMadeOfMovesOnce) {
  auto module = ir::parse_hlo(R"(HloModule m, num_partitions=8
    cond { p = (s32[], f32[16,64], f32[16,64], f32[16,64], f32[64]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(16)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[16,64], f32[16,64], f32[16,64], f32[64]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      a = f32[16,64] get-tuple-element(p), index=1
      b = f32[16,64] get-tuple-element(p), index=2
      c = f32[16,64] get-tuple-element(p), index=3
      s = f32[64] get-tuple-element(p), index=4
      zero = s32[] constant(0)
      ai = f32[1,64] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,64}
      bi = f32[1,64] dynamic-slice(b, i, zero), dynamic_slice_sizes={1,64}
      ci = f32[1,64] dynamic-slice(c, i, zero), dynamic_slice_sizes={1,64}
      ab = f32[1,64] multiply(ai, bi)
      abc = f32[1,64] add(ab, ci)
      flat = f32[64] reshape(abc)
      sum = f32[64] add(s, flat)
      one = s32[] constant(1)
      next = s32[] add(i, one)
      ROOT t = (s32[], f32[16,64], f32[16,64], f32[16,64], f32[64]) tuple(next, a, b, c, sum) }
    ENTRY e { x = f32[16,64] parameter(0), sharding={devices=[2,4]<=[8]}
      s = f32[64] parameter(1),
        sharding={devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
      zero = s32[] constant(0)
      k = f32[16,64] tanh(x)
      a = f32[16,64] negate(k)
      b = f32[16,64] cosine(k)
      c = f32[16,64] sine(k)
      t = (s32[], f32[16,64], f32[16,64], f32[16,64], f32[64]) tuple(zero, a, b, c, s)
      w = (s32[], f32[16,64], f32[16,64], f32[16,64], f32[64]) while(t), condition=cond, body=body,
        backend_config={"known_trip_count":{"n":"16"}}
      sum = f32[64] get-tuple-element(w), index=4
      ROOT r = (f32[16,64], f32[64]) tuple(k, sum),
        sharding={{devices=[2,4]<=[8]},
          {devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}} })");
  std::unique_ptr<ir::Module> propagated = module->clone();
  spmd::propagate(propagated.get());
  std::vector<spmd::LayoutAlternative> alternatives;
  spmd::PartitionOptions options;
  options.alternatives = &alternatives;
  spmd::partition(*propagated, options, nullptr);
  double bytes = 0, of_one = 0;
  for (const spmd::LayoutAlternative& a : alternatives) {
    if (!a.indirect) of_one = std::max(of_one, a.bytes);
    if (a.indirect && a.instruction->name == "k" && a.sharding.shards() == (Dims{1, 4})) {
      bytes += a.bytes;
    }
  }
  EXPECT_GE(bytes, 3 * of_one);
  PartitionCase c = check_refined(std::move(module), 1e-5);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 16 * 64 * 4 / 4 / 2.0) << c.text;
}

// A recurrence whose weights, an argument, come split: that they are gathered once pays only if the
// loop is given them whole, which is not how the argument lies.
TEST(Refine, WhatALoopDoesNotChangeIsGatheredOnce) {
  auto module = ir::parse_hlo(R"(HloModule m, num_partitions=8
    cond { p = (s32[], f32[32,96], f32[8,32]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(10)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { p = (s32[], f32[32,96], f32[8,32]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      w = f32[32,96] get-tuple-element(p), index=1
      h = f32[8,32] get-tuple-element(p), index=2
      gates = f32[8,96] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      g0 = f32[8,32] slice(gates), slice={[0:8], [0:32]}
      g1 = f32[8,32] slice(gates), slice={[0:8], [32:64]}
      g2 = f32[8,32] slice(gates), slice={[0:8], [64:96]}
      r = f32[8,32] multiply(g0, g1)
      z = f32[8,32] add(r, g2)
      hn = f32[8,32] tanh(z)
      one = s32[] constant(1)
      next = s32[] add(i, one)
      ROOT t = (s32[], f32[32,96], f32[8,32]) tuple(next, w, hn) }
    ENTRY e { x = f32[32,96] parameter(0), sharding={devices=[8,1]<=[8]}
      s = f32[8,32] parameter(1), sharding={devices=[8,1]<=[8]}
      zero = s32[] constant(0)
      t = (s32[], f32[32,96], f32[8,32]) tuple(zero, x, s)
      w = (s32[], f32[32,96], f32[8,32]) while(t), condition=cond, body=body,
        backend_config={"known_trip_count":{"n":"10"}}
      ROOT r = f32[8,32] get-tuple-element(w), index=2, sharding={devices=[8,1]<=[8]} })");
  PartitionCase c = check_refined(std::move(module), 1e-3);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 32 * 96 * 4 * 7 / 8.0) << c.text;
}

TEST(Refine, ProgramsThatTheSearchEndsWithAreJudged) {
  // Received by those that were judged, and by the one that was taken.
  struct Judged {
    std::set<double> all;
    double taken = 0;
  };
  const auto judged = [](const std::function<double(double bytes)>& held) {
    Judged out;
    spmd::RefineOptions options;
    const auto received = [](const ir::Module& propagated, const spmd::CostModel& cost) {
      spmd::PartitionOptions partition;
      partition.cost = cost;
      return spmd::count_communication(*spmd::partition(propagated, partition, nullptr));
    };
    options.judge = [&](const ir::Module& propagated, const spmd::CostModel& cost) {
      const auto count = received(propagated, cost);
      out.all.insert(count.total_bytes);
      return spmd::Outcome{count.total_bytes, count.dot_flops, held(count.total_bytes)};
    };
    const spmd::Refined refined =
        spmd::propagate_and_refine(parse_network(kBothDims, kXRows), options);
    out.taken = received(*refined.module, refined.cost).total_bytes;
    return out;
  };
  const Judged alike = judged([](double) { return 1000.0; });
  ASSERT_GT(alike.all.size(), 1u);
  const double least = *alike.all.begin(), second = *std::next(alike.all.begin());
  EXPECT_EQ(alike.taken, least);
  // One that holds far less wins, unless it receives far more.
  ASSERT_LT(second, 1.25 * least);
  EXPECT_EQ(judged([&](double bytes) { return bytes == second ? 10.0 : 1000.0; }).taken, second);
}

TEST(Refine, WhatTheSearchWinsMayBeSpentOnLessWork) {
  auto propagated = parse_network(kYColumns, kAllColumns);
  spmd::propagate(propagated.get());
  const double before = bytes_of(std::move(propagated));
  const PartitionCase c = check_refined(parse_network(kYColumns, kAllColumns), 1e-2);
  // No device repeats what another multiplies, and less is received than without the search.
  EXPECT_EQ(spmd::count_communication(*c.device).dot_flops, 5 * 2 * 32.0 * 64 * 128 / 8) << c.text;
  EXPECT_LE(c.bytes(), before) << c.text;
}

TEST(Refine, WhatTheProgramStatesStays) {
  auto module = parse_entry(R"(
    x = f32[32,64] parameter(0), sharding={devices=[1,8]<=[8]}
    w = f32[64,128] parameter(1), sharding={replicated}
    h = f32[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    c = f32[32,128] custom-call(h), custom_call_target="Sharding", sharding={devices=[8,1]<=[8]}
    t = f32[32,128] tanh(c)
    ROOT g = f32[64,128] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0},
      sharding={devices=[1,8]<=[8]})");
  module = spmd::propagate_and_refine(std::move(module)).module;
  bool found = false;
  for (const auto& i : module->entry()->instructions()) {
    if (i->name != "c") continue;
    found = true;
    EXPECT_EQ(i->sharding.at(0).shards(), (Dims{8, 1}));
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(module->entry()->parameter(0)->sharding.at(0).shards(), (Dims{1, 8}));
  EXPECT_EQ(module->entry()->root()->sharding.at(0).shards(), (Dims{1, 8}));
}

std::string dot_of(const std::string& x, const std::string& w, const std::string& y) {
  return "x = f32[1024,64] parameter(0), sharding=" + x +
         "\n w = f32[64,1024] parameter(1), sharding=" + w +
         "\n ROOT y = f32[1024,1024] dot(x, w), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}, sharding=" +
         y;
}

spmd::CommunicationCount count_refined(const std::string& entry) {
  const spmd::Refined refined = spmd::propagate_and_refine(parse_entry(entry));
  spmd::PartitionOptions options;
  options.cost = refined.cost;
  return spmd::count_communication(*spmd::partition(*refined.module, options, nullptr));
}

// Where the program says how all lies, the work that this asks for is done, and no bytes are paid
// for less: the result, sixteen times as large, is not gathered.
TEST(Refine, WhatIsStatedWholeIsComputedFromGatheredOperands) {
  const std::string rows = "{devices=[8,1]<=[8]}", columns = "{devices=[1,8]<=[8]}",
                    both = "{devices=[2,4]<=[8]}", whole = "{replicated}";
  const double operand = 1024 * 64 * 4 * 7 / 8.0;
  EXPECT_EQ(count_refined(dot_of(rows, whole, whole)).total_bytes, operand);
  EXPECT_EQ(count_refined(dot_of(whole, both, whole)).total_bytes, operand);
  EXPECT_EQ(count_refined(dot_of(rows, columns, whole)).total_bytes, 2 * operand);
}

// Partial sums of a small result cost less than the operand gathered, and share out the work.
TEST(Refine, SummedDimsAreSharedOutWhereTheResultIsSmaller) {
  const auto dot = [](std::int64_t columns) {
    const std::string n = std::to_string(columns);
    return "x = f32[64,256] parameter(0), sharding={devices=[2,4]<=[8]}\n w = f32[256," + n +
           "] parameter(1), sharding={replicated}\n ROOT y = f32[64," + n +
           "] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
           "sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  };
  EXPECT_EQ(count_refined(dot(32)).dot_flops, 2.0 * 64 * 256 * 32 / 8);
  const spmd::CommunicationCount wide = count_refined(dot(1024));
  EXPECT_EQ(wide.total_bytes, 32 * 256 * 4 * 3 / 4.0);
  EXPECT_EQ(wide.kinds.count("all-reduce"), 0u);
}

// All devices would do the same, and each sum up rows of a split table; shared out, rows meet
// theirs.
TEST(Refine, WhatEveryDeviceRepeatsIsSharedOutWhereBytesAreSavedToo) {
  constexpr const char* kLookUp = R"(
    table = f32[64,256] parameter(0),
      sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
    h = f32[64,256] parameter(1), sharding={replicated}
    w = f32[256,256] parameter(2), sharding={replicated}
    zero = f32[] constant(0)
    p = f32[64,256] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    m = f32[64] reduce(p, zero), dimensions={1}, to_apply=max
    i = s32[64] convert(m)
    j = s32[64,1] reshape(i)
    rows = f32[64,256] gather(table, j), offset_dims={1}, collapsed_slice_dims={0},
      start_index_map={0}, index_vector_dim=1, slice_sizes={1,256}
    s = f32[64,256] dot(rows, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[64,256] tanh(s)
    ROOT r = f32[64] reduce(t, zero), dimensions={1}, to_apply=add, sharding={replicated})";
  PartitionCase c = check_refined(parse_entry(kLookUp), 1e-3);
  // Half of the table's rows at most, and the 64 results.
  EXPECT_LE(c.bytes(), 64 * 256 * 4 / 4) << c.text;
  spmd::Refined refined = spmd::propagate_and_refine(parse_entry(kLookUp));
  spmd::PartitionOptions options;
  options.cost = refined.cost;
  const auto device = spmd::partition(*refined.module, options, nullptr);
  EXPECT_DOUBLE_EQ(spmd::count_communication(*device).dot_flops, 2 * 2.0 * 64 * 256 * 256 / 8)
      << ir::to_string(*device);
}

/// Among how many devices the dot of x and w is shared out.
double ways(const std::string& x, const std::string& w, const std::string& y) {
  return 2.0 * 1024 * 64 * 1024 / spmd::dot_work(*parse_entry(dot_of(x, w, y))).as_given;
}

TEST(GivenWork, IsSharedOutAsTheShardingsStand) {
  const std::string whole = "{replicated}", rows = "{devices=[8,1]<=[8]}",
                    columns = "{devices=[1,8]<=[8]}",
                    half_rows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  EXPECT_EQ(ways(whole, whole, whole), 1);
  // What an operand has beyond the result would be gathered.
  EXPECT_EQ(ways(rows, whole, whole), 1);
  EXPECT_EQ(ways(whole, whole, rows), 8);
  EXPECT_EQ(ways(rows, whole, half_rows), 2);
  EXPECT_EQ(ways(half_rows, whole, rows), 8);
  // A contracted dim must be split in both operands, one of them would be gathered.
  EXPECT_EQ(ways(columns, whole, whole), 1);
  EXPECT_EQ(ways(columns, rows, whole), 8);
  EXPECT_EQ(ways(rows, columns, whole), 1);
  // An axis serves once.
  EXPECT_EQ(ways(rows, columns, rows), 8);
}

// Figures of XLA's partitioner for the same shardings.
TEST(GivenWork, IsSharedOutGroupByGroup) {
  const std::string whole = "{replicated}", both = "{devices=[2,4]<=[8]}",
                    rows_x = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
                    columns_x = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
                    rows_y = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                    columns_y = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                    rows_of_y = "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}";
  // Groups along the contracted dim; within them the weights are cut as the result is.
  EXPECT_EQ(ways(columns_y, rows_y, columns_x), 8);
  // As many parts, of other devices: one operand is brought to the other.
  EXPECT_EQ(ways(columns_x, rows_of_y, whole), 2);
  // Groups of rows: the weights, which lie along the groups' own axis, are cut along the other.
  EXPECT_EQ(ways(both, rows_x, rows_x), 8);
  EXPECT_EQ(ways(both, whole, rows_x), 2);
  // The same number of parts doesn't help if the result lies across both.
  EXPECT_EQ(ways(rows_x, whole, columns_y), 4);
}

// Of a conditional's branches one runs: the dearest counts, as it does in what is received.
TEST(GivenWork, CountsTheDearestBranch) {
  const auto m = ir::parse_hlo(R"(HloModule m, num_partitions=8
one { a = f32[16,32] parameter(0)
  w = f32[32,16] constant({...})
  ROOT r = f32[16,16] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
two { a = f32[16,32] parameter(0)
  r = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT s = f32[16,16] dot(r, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY main {
  p = pred[] parameter(0)
  x = f32[16,32] parameter(1)
  ROOT y = f32[16,16] conditional(p, x, x), true_computation=one, false_computation=two
})");
  EXPECT_EQ(spmd::dot_work(*m).as_given, 2 * 16 * 16 * (32 + 16));
}

TEST(Score, WeighsWhatIsWonAgainstWhatTheProgramAsksFor) {
  const spmd::Outcome asked{1000, 1e6, 5000};
  const auto score = [&](double bytes, double flops, double held) {
    return spmd::score_of({bytes, flops, held}, 2000, asked);
  };
  const double as_asked = score(1000, 1e6, 5000);
  EXPECT_LT(score(900, 1e6, 5000), as_asked);
  EXPECT_LT(score(1000, 9e5, 5000), as_asked);
  EXPECT_LT(score(1000, 1e6, 4500), as_asked);
  // Below what is asked for one may be had for the other.
  EXPECT_LT(score(600, 3e5, 3000), score(500, 9e5, 4900));
  EXPECT_LT(score(500, 1e6, 5400), as_asked);
  // Above it hardly: bytes not at all, work and memory for much only.
  EXPECT_GT(score(1030, 3e5, 4000), as_asked);
  EXPECT_GT(score(900, 1.2e6, 5000), as_asked);
  EXPECT_GT(score(900, 1e6, 6500), as_asked);
  EXPECT_LT(spmd::score_of({900, 1e6, 5000}, 2000, asked),
            spmd::score_of({900, 1e6, 5000}, 3000, asked));
  const spmd::Outcome least = spmd::least_of(asked, {2000, 5e5, 6000});
  EXPECT_EQ(least.bytes, 1000);
  EXPECT_EQ(least.dot_flops, 5e5);
  EXPECT_EQ(least.held, 5000);
}

TEST(Refine, SaysTheSameEachTime) {
  std::string first;
  for (int k = 0; k < 3; ++k) {
    const std::string text =
        ir::to_string(*spmd::propagate_and_refine(parse_entry(kTwoUsers)).module);
    if (k == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

TEST(Refine, WithoutTrialsItPropagates) {
  spmd::RefineOptions options;
  options.trials = 0;
  auto module = spmd::propagate_and_refine(parse_entry(kTwoUsers), options).module;
  auto alone = parse_entry(kTwoUsers);
  spmd::propagate(alone.get());
  EXPECT_EQ(ir::to_string(*module), ir::to_string(*alone));
}

/// As a large module is searched. What it is partitioned into comes along.
std::unique_ptr<ir::Module> refined_as_large(const char* body) {
  spmd::RefineOptions large;
  large.instructions = large.max_instructions = 1;
  spmd::Refined refined = spmd::propagate_and_refine(parse_entry(body), large);
  EXPECT_TRUE(refined.device);
  if (!refined.device) return std::move(refined.module);
  spmd::PartitionOptions options;
  options.cost = refined.cost;
  spmd::PartitionReport report;
  EXPECT_EQ(ir::to_string(*refined.device),
            ir::to_string(*spmd::partition(*refined.module, options, &report)));
  EXPECT_EQ(refined.report.records.size(), report.records.size());
  return std::move(refined.module);
}

/// Two arrays that ops need whole, one computed from the other, while a third op has the second
/// split: whole each on its own saves nothing, both together a gather.
TEST(Refine, LargeModulesAreTriedWithAllThatIsAskedForWhole) {
  const char* const body = R"(
    x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[64,64] parameter(1), sharding={devices=[8,1]<=[8]}
    t = f32[64,64] tanh(x)
    ta = f32[64,64] cholesky(t), lower=true
    a = f32[64,64] cholesky(ta), lower=true
    e = f32[64,64] exponential(t)
    eb = f32[64,64] cholesky(e), lower=true
    b = f32[64,64] cholesky(eb), lower=true
    r = f32[64,64] multiply(e, y)
    ROOT out = (f32[64,64], f32[64,64], f32[64,64]) tuple(a, b, r),
      sharding={{replicated}, {replicated}, {devices=[8,1]<=[8]}})";
  const double gathered = 64 * 64 * 4 * 7 / 8.0;
  auto alone = parse_entry(body);
  spmd::propagate(alone.get());
  EXPECT_EQ(bytes_of(std::move(alone)), 2 * gathered);
  EXPECT_EQ(bytes_of(refined_as_large(body)), gathered);
}

// Nothing is tried one by one there, but which argument leads.
TEST(Refine, LargeModulesAreTriedFromOtherArguments) {
  const char* const body = R"(
    x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[64,64] parameter(1), sharding={devices=[1,8]<=[8]}
    a = f32[64,64] add(x, y)
    b = f32[64,64] multiply(a, x)
    c = f32[64,64] tanh(b)
    d = f32[64,64] cholesky(c), lower=true
    e = f32[64,64] add(d, y)
    f = f32[64,64] multiply(e, y)
    g = f32[64,64] subtract(f, y)
    ROOT r = (f32[64,64], f32[64,64]) tuple(a, g),
      sharding={{devices=[1,8]<=[8]}, {devices=[1,8]<=[8]}})";
  auto alone = parse_entry(body);
  spmd::propagate(alone.get());
  EXPECT_LT(bytes_of(refined_as_large(body)), bytes_of(std::move(alone)));
}

// No other start is better: what was tried leaves no trace.
TEST(Refine, LargeModulesStayAsPropagatedIfNothingIsBetter) {
  const char* const body = R"(
    x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[64,64] parameter(1), sharding={devices=[8,1]<=[8]}
    a = f32[64,64] add(x, y)
    b = f32[64,64] cholesky(a), lower=true
    ROOT r = (f32[64,64], f32[64,64]) tuple(a, b),
      sharding={{devices=[8,1]<=[8]}, {replicated}})";
  auto alone = parse_entry(body);
  spmd::propagate(alone.get());
  EXPECT_EQ(ir::to_string(*refined_as_large(body)), ir::to_string(*alone));
}

/// A batch meets weights that are split by what they yield: either could decide how all lies.
constexpr const char* kTwoWays = R"(
    x = f32[64,32] parameter(0), sharding={devices=[8,1]<=[8]}
    w = f32[32,64] parameter(1), sharding={devices=[1,8]<=[8]}
    b = f32[64] parameter(2), sharding={devices=[8]<=[8]}
    bb = f32[64,64] broadcast(b), dimensions={1}
    d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    h = f32[64,64] add(d, bb)
    t = f32[64,64] tanh(h)
    ROOT g = f32[64,64] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={1},
      sharding={replicated})";

TEST(Refine, AllFollowTheArgumentThatComesFirst) {
  auto module = parse_entry(kTwoWays);
  const ir::Instruction* inner = nullptr;
  for (const auto& i : module->entry()->instructions()) {
    if (i->name == "t") inner = i.get();
  }
  ASSERT_TRUE(inner);
  spmd::Propagation flow(module.get());
  flow.run();
  const std::string alone = ir::to_string(*module);
  const std::vector<ir::Instruction*> arguments = module->entry()->parameters();
  auto led_by = [&](std::size_t argument) {
    flow.run({}, flow.value_of(*arguments[argument], 0));
    // The arguments themselves lie as the program says.
    EXPECT_EQ(arguments[0]->sharding.at(0).shards(), (Dims{8, 1}));
    EXPECT_EQ(arguments[1]->sharding.at(0).shards(), (Dims{1, 8}));
    EXPECT_EQ(arguments[2]->sharding.at(0).shards(), (Dims{8}));
    for (const ir::Instruction* a : arguments) {
      for (const DimSharding& d : a->sharding.at(0).dims) EXPECT_EQ(d.priority, 0);
    }
    return inner->sharding.at(0).shards();
  };
  EXPECT_EQ(led_by(0), (Dims{8, 1}));
  EXPECT_EQ(led_by(1), (Dims{1, 8}));
  EXPECT_EQ(led_by(2), (Dims{1, 8}));
  // And nothing of it stays.
  flow.run();
  EXPECT_EQ(ir::to_string(*module), alone);
}

TEST(Refine, WhicheverArgumentLeadsTheResultIsRight) {
  const PartitionCase c = check_refined(parse_entry(kTwoWays), 1e-3);
  // The last dot meets rows that other devices have: something moves, but no more than everything.
  EXPECT_GT(c.collectives(), 0) << c.text;
  EXPECT_LT(c.bytes(), (64 * 32 + 32 * 64 + 64 + 3 * 64 * 64) * 4.0) << c.text;
}

}  // namespace
}  // namespace tessera::testing
