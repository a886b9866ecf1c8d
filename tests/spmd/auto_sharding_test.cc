// SPDX-License-Identifier: Apache-2.0
// Shardings of intermediate arrays that are solved for.
#include "src/spmd/auto_sharding/auto_sharding.h"

#include <gtest/gtest.h>

#include <optional>

#include "src/base/arrays/literal_util.h"
#include "src/cost/count.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"
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
  return cost::count_communication(*spmd::partition(*propagated, {}, nullptr)).total_bytes;
}

TEST(AutoSharding, AnOpenResultIsShardedAsItWasComputed) {
  const std::string step = R"(
    p = f32[64,64] parameter(0), sharding={devices=[2,4]<=[8]}
    g = f32[64,64] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0)}
    ROOT n = f32[64,64] subtract(p, g))";
  const PartitionCase open = check_solved(parse_entry(step));
  EXPECT_EQ(open.count(Opcode::all_gather), 0) << open.text;
  EXPECT_LE(open.bytes(), 3 * 64 * 64 * 4 / 8);
  // What the program states holds.
  const PartitionCase stated = check_solved(parse_entry(step + ", sharding={replicated}"));
  EXPECT_NE(stated.text.find("all-gather"), std::string::npos) << stated.text;
}

TEST(AutoSharding, OneGatherServesTwoDots) {
  PartitionCase c = check_solved(parse_entry(kTwoUsers), 1e-3);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.bytes(), 32 * 64 * 4 * 7 / 8.0);
  // One op at a time would move the first dot's operand and its result as well.
  auto alone = parse_entry(kTwoUsers);
  spmd::propagate(alone.get());
  EXPECT_GT(bytes_of(std::move(alone)), c.bytes());
}

TEST(AutoSharding, WhatALoopSlicesIsSplitByColumns) {
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
  PartitionCase c = check_solved(std::move(module));
  const double gathered = 16 * 64 * 4 * 7 / 8.0;
  // Split by columns, the rows are exchanged once and the sums gathered.
  EXPECT_LT(cost::count_communication(*c.device).total_bytes, gathered / 2) << c.text;
}

// Each of the arrays that a loop goes through row by row would have to lie by columns for itself;
// what they are made of moves instead.
TEST(AutoSharding, WhatSeveralArraysAreMadeOfMovesOnce) {
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
  PartitionCase c = check_solved(std::move(module), 1e-5);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 16 * 64 * 4 / 4 / 2.0) << c.text;
}

// A recurrence whose weights, an argument, come split: that they are gathered once pays only if the
// loop is given them whole, which is not how the argument lies.
TEST(AutoSharding, WhatALoopDoesNotChangeIsGatheredOnce) {
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
  spmd::AutoShardingOptions roomy;
  roomy.memory_budget = 1e6;
  PartitionCase c = check_solved(std::move(module), 1e-3, roomy);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 32 * 96 * 4 * 7 / 8.0) << c.text;
}

TEST(AutoSharding, BytesAndWorkHaveOnePrice) {
  const spmd::AutoSharding found = spmd::propagate_and_solve(parse_network(kYColumns, kAllColumns));
  EXPECT_TRUE(found.solved);
  EXPECT_LT(found.chosen.total, 0.9 * found.propagated.total);
  // Some work is repeated, for bytes that are worth more.
  const double shared = 5 * 2 * 32.0 * 64 * 128 / 8;
  EXPECT_LE(found.chosen.flops, 1.5 * shared);
  EXPECT_LE(found.chosen.bytes, found.propagated.bytes);
  check_solved(parse_network(kYColumns, kAllColumns), 1e-2);
}

TEST(AutoSharding, MemoryIsLimited) {
  const auto within = [](std::optional<double> budget) {
    spmd::AutoShardingOptions options;
    options.memory_budget = budget;
    return spmd::propagate_and_solve(parse_network(kYColumns, kAllColumns), options).chosen;
  };
  const spmd::ProgramCost free = within(1e12), none = within(1);
  EXPECT_LE(within(free.peak_bytes).peak_bytes, free.peak_bytes);
  EXPECT_EQ(within(free.peak_bytes).total, free.total);
  // Too little for any program: the propagated one stays.
  EXPECT_GT(none.total, free.total);
}

// Nothing moves as it is propagated; what each device repeats takes more memory than there is.
TEST(AutoSharding, ABudgetIsMetAtACost) {
  constexpr const char* kRepeated = R"(
    x = f32[64,64] parameter(0), sharding={replicated}
    w = f32[64,1024] parameter(1), sharding={replicated}
    v = f32[1024,64] parameter(2), sharding={replicated}
    h = f32[64,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[64,1024] tanh(h)
    ROOT r = f32[64,64] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0},
      sharding={replicated})";
  const spmd::AutoSharding free = spmd::propagate_and_solve(parse_entry(kRepeated));
  EXPECT_FALSE(free.solved);
  EXPECT_EQ(free.chosen.bytes, 0);
  spmd::AutoShardingOptions tight;
  tight.memory_budget = 0.8 * free.chosen.peak_bytes;
  const spmd::AutoSharding bound = spmd::propagate_and_solve(parse_entry(kRepeated), tight);
  EXPECT_TRUE(bound.solved);
  EXPECT_GT(bound.chosen.bytes, 0);
  EXPECT_LE(bound.chosen.peak_bytes, *tight.memory_budget);
  check_solved(parse_entry(kRepeated), 1e-2, tight);
}

TEST(AutoSharding, WhatTheProgramStatesStays) {
  auto module = parse_entry(R"(
    x = f32[32,64] parameter(0), sharding={devices=[1,8]<=[8]}
    w = f32[64,128] parameter(1), sharding={replicated}
    h = f32[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    c = f32[32,128] custom-call(h), custom_call_target="Sharding", sharding={devices=[8,1]<=[8]}
    t = f32[32,128] tanh(c)
    ROOT g = f32[64,128] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0},
      sharding={devices=[1,8]<=[8]})");
  module = spmd::propagate_and_solve(std::move(module)).module;
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

cost::CommunicationCount count_solved(const std::string& entry) {
  const spmd::AutoSharding found = spmd::propagate_and_solve(parse_entry(entry));
  return cost::count_communication(*spmd::partition(*found.module, {}, nullptr));
}

// Where the program says how all lies, the work that this asks for is done, and no bytes are paid
// for less: the result, sixteen times as large, is not gathered.
TEST(AutoSharding, WhatIsStatedWholeIsComputedFromGatheredOperands) {
  const std::string rows = "{devices=[8,1]<=[8]}", columns = "{devices=[1,8]<=[8]}",
                    both = "{devices=[2,4]<=[8]}", whole = "{replicated}";
  const double operand = 1024 * 64 * 4 * 7 / 8.0;
  EXPECT_EQ(count_solved(dot_of(rows, whole, whole)).total_bytes, operand);
  EXPECT_EQ(count_solved(dot_of(whole, both, whole)).total_bytes, operand);
  EXPECT_EQ(count_solved(dot_of(rows, columns, whole)).total_bytes, 2 * operand);
}

// Partial sums of a small result cost less than the operand gathered, and share out the work.
TEST(AutoSharding, SummedDimsAreSharedOutWhereTheResultIsSmaller) {
  const auto dot = [](std::int64_t columns) {
    const std::string n = std::to_string(columns);
    return "x = f32[64,256] parameter(0), sharding={devices=[2,4]<=[8]}\n w = f32[256," + n +
           "] parameter(1), sharding={replicated}\n ROOT y = f32[64," + n +
           "] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
           "sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  };
  EXPECT_EQ(count_solved(dot(32)).dot_flops, 2.0 * 64 * 256 * 32 / 8);
  const cost::CommunicationCount wide = count_solved(dot(1024));
  EXPECT_EQ(wide.total_bytes, 32 * 256 * 4 * 3 / 4.0);
  EXPECT_EQ(wide.kinds.count("all-reduce"), 0u);
}

// All devices would do the same, and each sum up rows of a split table; shared out, rows meet
// theirs.
TEST(AutoSharding, WhatEveryDeviceRepeatsIsSharedOutWhereBytesAreSavedToo) {
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
  PartitionCase c = check_solved(parse_entry(kLookUp), 1e-3);
  // Half of the table's rows at most, and the 64 results.
  EXPECT_LE(c.bytes(), 64 * 256 * 4 / 4) << c.text;
  const spmd::AutoSharding found = spmd::propagate_and_solve(parse_entry(kLookUp));
  const auto device = spmd::partition(*found.module, {}, nullptr);
  EXPECT_DOUBLE_EQ(cost::count_communication(*device).dot_flops, 2 * 2.0 * 64 * 256 * 256 / 8)
      << ir::to_string(*device);
}

TEST(AutoSharding, SaysTheSameEachTime) {
  std::string first;
  for (int k = 0; k < 3; ++k) {
    const std::string text =
        ir::to_string(*spmd::propagate_and_solve(parse_entry(kTwoUsers)).module);
    if (k == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

/// Shardings as solved for, and what they are partitioned into.
std::unique_ptr<ir::Module> solved(const char* body) {
  spmd::AutoShardingOptions roomy;
  roomy.memory_budget = 1e6;
  spmd::AutoSharding found = spmd::propagate_and_solve(parse_entry(body), roomy);
  EXPECT_TRUE(found.device);
  spmd::PartitionReport report;
  EXPECT_EQ(ir::to_string(*found.device),
            ir::to_string(*spmd::partition(*found.module, {}, &report)));
  EXPECT_EQ(found.report.records.size(), report.records.size());
  return std::move(found.module);
}

/// Two arrays that ops need whole, one computed from the other, while a third op has the second
/// split: whole each on its own saves nothing, both together a gather.
TEST(AutoSharding, SeveralArraysMayChangeTogether) {
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
  EXPECT_EQ(bytes_of(solved(body)), gathered);
}

TEST(AutoSharding, AllMayFollowAnotherArgument) {
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
  EXPECT_LT(bytes_of(solved(body)), bytes_of(std::move(alone)));
}

// No other program is better: what was tried leaves no trace.
TEST(AutoSharding, StaysAsPropagatedIfNothingIsBetter) {
  const char* const body = R"(
    x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[64,64] parameter(1), sharding={devices=[8,1]<=[8]}
    a = f32[64,64] add(x, y)
    b = f32[64,64] cholesky(a), lower=true
    ROOT r = (f32[64,64], f32[64,64]) tuple(a, b),
      sharding={{devices=[8,1]<=[8]}, {replicated}})";
  auto alone = parse_entry(body);
  spmd::propagate(alone.get());
  EXPECT_EQ(ir::to_string(*solved(body)), ir::to_string(*alone));
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

TEST(AutoSharding, WhicheverArgumentLeadsTheResultIsRight) {
  const PartitionCase c = check_solved(parse_entry(kTwoWays), 1e-3);
  // The last dot meets rows that other devices have: something moves, but no more than everything.
  EXPECT_GT(c.collectives(), 0) << c.text;
  EXPECT_LT(c.bytes(), (64 * 32 + 32 * 64 + 64 + 3 * 64 * 64) * 4.0) << c.text;
}

}  // namespace
}  // namespace tessera::testing
