// SPDX-License-Identifier: Apache-2.0
// Tuples, calls, loops, branches, constraints, reports.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

TEST(PartitionControl, LoopCarriesStaySplit) {
  PartitionCase c = check_partition(ir::parse_hlo(R"(
HloModule m, num_partitions=8
cond {
  s = (s32[], f32[16,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[16,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[16,8] get-tuple-element(s), index=1
  y = f32[16,8] add(x, x)
  ROOT t = (s32[], f32[16,8]) tuple(next, y)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  s = (s32[], f32[16,8]) tuple(zero, x)
  w = (s32[], f32[16,8]) while(s), condition=cond, body=body
  ROOT r = f32[16,8] get-tuple-element(w), index=1, sharding={devices=[8,1]<=[8]}
}
)"));
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_NE(c.text.find("f32[2,8]"), std::string::npos) << c.text;
  EXPECT_EQ(c.text.find("f32[16,8]"), std::string::npos) << c.text;
}

/// A loop with a weight split by columns, and its next value; x is sharded likewise.
PartitionCase multiplied_in_a_loop(const std::string& weight, const std::string& trips,
                                   bool solve) {
  std::string text = R"(HloModule m, num_partitions=8
    cond { s = (s32[], f32[16,64], f32[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(12)
      ROOT c = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[16,64], f32[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      j = s32[] add(i, one)
      x = f32[16,64] get-tuple-element(s), index=1, sharding={devices=[1,8]<=[8]}
      w = f32[64,64] get-tuple-element(s), index=2
      other = f32[64,64] add(w, w), sharding={devices=[1,8]<=[8]}
      d = f32[16,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      low = f32[] constant(-1)
      high = f32[] constant(1)
      y = f32[16,64] clamp(low, d, high)
      ROOT r = (s32[], f32[16,64], f32[64,64]) tuple(j, y, WEIGHT) }
    ENTRY e { zero = s32[] constant(0)
      x = f32[16,64] parameter(0), sharding={devices=[1,8]<=[8]}
      w = f32[64,64] parameter(1), sharding={devices=[1,8]<=[8]}
      t = (s32[], f32[16,64], f32[64,64]) tuple(zero, x, w)
      l = (s32[], f32[16,64], f32[64,64]) while(t), condition=cond, body=bodyTRIPS
      ROOT o = f32[16,64] get-tuple-element(l), index=1, sharding={devices=[1,8]<=[8]} })";
  text.replace(text.find("WEIGHT"), 6, weight);
  text.replace(text.find("TRIPS"), 5, trips);
  spmd::AutoShardingOptions roomy;
  roomy.memory_budget = 1e6;
  return solve ? check_solved(ir::parse_hlo(text), 0, roomy) : check_partition(ir::parse_hlo(text));
}

TEST(PartitionControl, InvariantOperandsAreReshardedOnceBeforeTheLoop) {
  const std::string known = R"(, backend_config={"known_trip_count":{"n":"12"}})";
  const std::string weight = "all-gather(w)";
  const PartitionCase once = multiplied_in_a_loop("w", known, true);
  EXPECT_NE(once.text.find(weight), std::string::npos) << once.text;
  // It would move in each trip, or in the only one that is known of.
  for (const PartitionCase& each :
       {multiplied_in_a_loop("other", known, true), multiplied_in_a_loop("w", known, false),
        multiplied_in_a_loop("w", "", true)}) {
    EXPECT_EQ(each.text.find(weight), std::string::npos) << each.text;
  }
}

TEST(PartitionControl, SharedFunctionsStayShared) {
  PartitionCase c = check_partition(ir::parse_hlo(R"(
HloModule m, num_partitions=8
twice {
  x = f32[16] parameter(0)
  ROOT y = f32[16] add(x, x)
}
ENTRY e {
  a = f32[16] parameter(0), sharding={devices=[8]<=[8]}
  b = f32[16] call(a), to_apply=twice
  c = f32[16] call(b), to_apply=twice
  ROOT d = f32[16] call(c), to_apply=twice, sharding={devices=[8]<=[8]}
}
)"));
  EXPECT_EQ(c.device->computations().size(), 2u) << c.text;
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionControl, BranchesWithCommunication) {
  for (int flag : {0, 1}) {
    Literal p(Shape(DType::pred, {}));
    p.mutable_data<Pred>()[0] = Pred(flag != 0);
    Literal x(Shape(f32, {8, 8}));
    for (int i = 0; i < 64; ++i) x.mutable_data<float>()[std::size_t(i)] = float(i % 7);
    PartitionCase c = check_partition(ir::parse_hlo(R"(
HloModule m, num_partitions=8
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
yes {
  x = f32[8,8] parameter(0)
  z = f32[] constant(0)
  s = f32[8] reduce(x, z), dimensions={0}, to_apply=add
  ROOT y = f32[8,8] broadcast(s), dimensions={1}
}
no {
  x = f32[8,8] parameter(0)
  ROOT y = f32[8,8] transpose(x), dimensions={1,0}
}
ENTRY e {
  p = pred[] parameter(0)
  x = f32[8,8] parameter(1), sharding={devices=[8,1]<=[8]}
  ROOT r = f32[8,8] conditional(p, x, x), branch_computations={yes, no},
    sharding={devices=[8,1]<=[8]}
}
)"),
                                      0, {p, x});
    EXPECT_EQ(c.count(Opcode::conditional), 1) << c.text;
    EXPECT_FALSE(c.full_gather());
  }
}

TEST(PartitionControl, ConstraintsReshard) {
  PartitionCase c = check_partition(R"(
    a = f32[16,16] parameter(0), sharding={devices=[8,1]<=[8]}
    k = f32[16,16] custom-call(a), custom_call_target="Sharding", sharding={devices=[1,8]<=[8]}
    ROOT r = f32[16,16] add(k, k), sharding={devices=[1,8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_to_all), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::sharding_constraint), 0) << c.text;
}

TEST(PartitionControl, ReportNamesOpLineAndSpecs) {
  PartitionCase c = check_partition(R"(
    a = f32[16,16] parameter(0), sharding={devices=[1,8]<=[8]}
    b = f32[16,16] parameter(1), sharding={devices=[8,1]<=[8]}
    ROOT d = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0},
      metadata={op_name="jit(f)/dot" source_file="model.cc" source_line=42},
      sharding={replicated})");
  ASSERT_EQ(c.report.records.size(), 1u) << c.text;
  const spmd::CommunicationRecord& r = c.report.records[0];
  EXPECT_EQ(r.kind, "all-reduce");
  EXPECT_EQ(r.for_op, "dot jit(f)/dot");
  EXPECT_EQ(r.location.to_string(), "model.cc:42");
  EXPECT_EQ(r.bytes_received, 2 * 16 * 16 * 4 * 7 / 8.0);
  EXPECT_FALSE(r.full_gather);
  EXPECT_NE(c.text.find(r.instruction + " = "), std::string::npos) << c.text;
  EXPECT_NE(c.text.find("source_line=42"), std::string::npos) << c.text;
}

TEST(PartitionControl, FullGathersAreReported) {
  auto batched = parse_entry(R"(
    a = f32[8,8,8] parameter(0), sharding={devices=[8,1,1]<=[8]}
    ROOT c = f32[8,8,8] cholesky(a), lower=true,
      metadata={source_file="model.cc" source_line=7}, sharding={devices=[8,1,1]<=[8]})");
  spmd::propagate(batched.get());
  spmd::PartitionReport none;
  spmd::partition(*batched, {}, &none);
  EXPECT_TRUE(none.records.empty());
  EXPECT_TRUE(none.replicated_ops.empty());
  auto scan = parse_entry(R"(
    a = f32[64] parameter(0), sharding={devices=[8]<=[8]}
    ROOT c = f32[64] custom-call(a), custom_call_target="mystery",
      metadata={source_file="model.cc" source_line=7}, sharding={devices=[8]<=[8]})");
  spmd::propagate(scan.get());
  spmd::PartitionReport report;
  spmd::partition(*scan, {}, &report);
  ASSERT_EQ(report.replicated_ops.size(), 1u);
  EXPECT_NE(report.replicated_ops[0].find("mystery (model.cc:7)"), std::string::npos)
      << report.replicated_ops[0];
  EXPECT_NE(report.replicated_ops[0].find("224 bytes"), std::string::npos);
  EXPECT_TRUE(report.records.at(0).full_gather);
  EXPECT_EQ(report.records.at(0).location.to_string(), "model.cc:7");
}

TEST(PartitionControl, SameTextEachTime) {
  const char* lines = R"(
    a = f32[16,24] parameter(0), sharding={devices=[2,4]<=[8]}
    b = f32[24,16] parameter(1), sharding={devices=[4,2]<=[8]}
    d = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = f32[16,16] transpose(d), dimensions={1,0}, sharding={devices=[8,1]<=[8]})";
  EXPECT_EQ(check_partition(lines).text, check_partition(lines).text);
}

TEST(PartitionControl, OneDeviceAndNoShardings) {
  auto one = ir::parse_hlo(R"(
HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  ROOT r = f32[4] add(a, a)
}
)");
  PartitionCase c = check_partition(std::move(one));
  EXPECT_EQ(c.device->num_partitions, 1);
  EXPECT_EQ(c.count(Opcode::partition_id), 0);
  PartitionCase all = check_partition("a = f32[4] parameter(0)\n ROOT r = f32[4] add(a, a)");
  EXPECT_EQ(all.device->num_partitions, 8);
  EXPECT_EQ(all.collectives(), 0);
}

}  // namespace
}  // namespace tessera::testing
