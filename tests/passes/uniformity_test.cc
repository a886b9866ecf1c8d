// SPDX-License-Identifier: Apache-2.0
// Which devices are known to hold equal values.
#include "src/passes/analysis/uniformity.h"

#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::passes {
namespace {

using Classes = std::vector<std::int32_t>;

struct Analyzed {
  std::unique_ptr<ir::Module> module;
  ClassesTable table;
  UniformityFacts facts;

  explicit Analyzed(const std::string& text)
      : module(ir::parse_hlo(text)), table(module->num_partitions) {
    facts = analyze_uniformity(*module, &table);
  }
  const LeafFacts& leaf(const std::string& name, std::size_t k = 0) const {
    for (const auto& i : module->entry()->instructions()) {
      if (i->name == name) return facts.leaves[std::size_t(i->index)][k];
    }
    throw ValueError("no instruction " + name);
  }
  Classes classes(const std::string& name, std::size_t k = 0) const {
    return table[leaf(name, k).classes].class_of;
  }
};

const Classes kAll = {0, 0, 0, 0, 0, 0, 0, 0}, kDistinct = {0, 1, 2, 3, 4, 5, 6, 7},
              kRows = {0, 0, 0, 0, 1, 1, 1, 1}, kColumns = {0, 1, 2, 3, 0, 1, 2, 3};

TEST(Uniformity, ParametersFollowTheirShardings) {
  const Analyzed a(R"(
HloModule m, num_partitions=8
ENTRY main {
  r = f32[8] parameter(0), sharding={replicated}
  x = f32[4] parameter(1), sharding={devices=[2,4]<=[8] last_tile_dim_replicate}
  y = f32[2] parameter(2), sharding={devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  n = f32[2] parameter(3)
  rr = f32[8] negate(r)
  xy = f32[4] concatenate(y, y), dimensions={0}
  both = f32[4] add(x, xy)
  c = f32[4] constant({1,2,3,4})
  xc = f32[4] add(x, c)
  ROOT t = (f32[8], f32[4], f32[4], f32[2]) tuple(rr, both, xc, n)
}
)");
  EXPECT_EQ(a.classes("r"), kAll);
  EXPECT_EQ(a.classes("rr"), kAll);
  EXPECT_EQ(a.classes("x"), kRows);
  EXPECT_EQ(a.classes("y"), kColumns);
  EXPECT_EQ(a.classes("both"), kDistinct);
  EXPECT_EQ(a.classes("xc"), kRows);
  EXPECT_EQ(a.classes("n"), kDistinct);
  EXPECT_EQ(a.classes("t", 2), kRows);
}

TEST(Uniformity, CollectivesMakeGroupsEqual) {
  const Analyzed a(R"(
HloModule m, num_partitions=8
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  n = f32[8] parameter(0)
  y = f32[8] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  rows = f32[8] all-reduce(n), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=sum
  all = f32[8] all-reduce(n), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=sum
  again = f32[8] all-reduce(y), replica_groups={{0,4},{1,5},{2,6},{3,7}}, to_apply=sum
  whole = f32[32] all-gather(y), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  turned = f32[32] all-gather(y), replica_groups={{0,1,2,3},{5,6,7,4}}, dimensions={0}
  part = f32[2] reduce-scatter(n), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=sum
  sent = f32[8] collective-permute(all), source_target_pairs={{0,1},{1,2}}
  ROOT t = (f32[8], f32[8], f32[8], f32[32], f32[32], f32[2], f32[8]) tuple(rows, all, again, whole, turned, part, sent)
}
)");
  EXPECT_EQ(a.classes("rows"), kRows);
  EXPECT_EQ(a.classes("all"), kAll);
  EXPECT_EQ(a.classes("again"), kColumns);
  EXPECT_EQ(a.classes("whole"), kAll);
  EXPECT_EQ(a.classes("turned"), kRows);
  EXPECT_EQ(a.classes("part"), kDistinct);
  EXPECT_EQ(a.classes("sent"), (Classes{0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(Uniformity, NumbersOfDevicesAreKnown) {
  const Analyzed a(R"(
HloModule m, num_partitions=8
ENTRY main {
  x = f32[8] parameter(0), sharding={replicated}
  id = u32[] partition-id()
  i = s32[] convert(id)
  four = s32[] constant(4)
  row = s32[] divide(i, four)
  column = s32[] remainder(i, four)
  table = s32[8] constant({0,0,2,2,4,4,6,6})
  entry = s32[1] dynamic-slice(table, i), dynamic_slice_sizes={1}
  at = s32[] reshape(entry)
  part = f32[2] dynamic-slice(x, row), dynamic_slice_sizes={2}
  ROOT t = (s32[], s32[], s32[], f32[2]) tuple(row, column, at, part)
}
)");
  EXPECT_EQ(a.classes("row"), kRows);
  EXPECT_EQ(a.classes("column"), kColumns);
  EXPECT_EQ(a.classes("at"), (Classes{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(a.classes("part"), kRows);
  ASSERT_TRUE(a.leaf("at").known);
  EXPECT_EQ(to_scalar<int>((*a.leaf("at").known)[3]), 6);
  EXPECT_FALSE(a.leaf("part").known);
}

TEST(Uniformity, APredicateSplitsWhatItsLoopCarries) {
  const std::string loop = R"(
condition {
  c = (f32[], f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(c), index=0
  limit = f32[] get-tuple-element(c), index=1
  ROOT less = pred[] compare(a, limit), direction=LT
}
body {
  c = (f32[], f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(c), index=0
  limit = f32[] get-tuple-element(c), index=1
  other = f32[] get-tuple-element(c), index=2
  one = f32[] constant(1)
  next = f32[] add(a, one)
  twice = f32[] add(other, other)
  ROOT t = (f32[], f32[], f32[]) tuple(next, limit, twice)
}
ENTRY main {
  a = f32[] parameter(0), sharding={replicated}
  limit = f32[] parameter(1)LIMIT
  t = (f32[], f32[], f32[]) tuple(a, limit, a)
  ROOT w = (f32[], f32[], f32[]) while(t), condition=condition, body=body
}
)";
  std::string same = "HloModule m, num_partitions=8\n" + loop, apart = same;
  same.replace(same.find("LIMIT"), 5, ", sharding={replicated}");
  apart.replace(apart.find("LIMIT"), 5, "");
  const Analyzed lockstep(same), split(apart);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(lockstep.classes("w", k), kAll);
    EXPECT_EQ(split.classes("w", k), kDistinct);
  }
}

TEST(Uniformity, ASelectorSplitsWhatItsBranchesReturn) {
  const Analyzed a(R"(
HloModule m, num_partitions=8
yes {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p)
}
no {
  ROOT p = f32[] parameter(0)
}
ENTRY main {
  x = f32[] parameter(0), sharding={replicated}
  id = u32[] partition-id()
  four = u32[] constant(4)
  low = pred[] compare(id, four), direction=LT
  some = f32[] conditional(low, x, x), true_computation=yes, false_computation=no
  zero = f32[] constant(0)
  positive = pred[] compare(x, zero), direction=GT
  all = f32[] conditional(positive, x, x), true_computation=yes, false_computation=no
  ROOT t = (f32[], f32[]) tuple(some, all)
}
)");
  EXPECT_EQ(a.classes("some"), kRows);
  EXPECT_EQ(a.classes("all"), kAll);
}

}  // namespace
}  // namespace tessera::passes
