// SPDX-License-Identifier: Apache-2.0
// Over which axes the values of code per device vary.
#include "src/ir/analysis/varying_axes.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::ir {
namespace {

constexpr const char* kCallees = R"(
add { left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT sum = f32[] add(left, right) }
)";

/// A body of p, which is cut by x, and q, which is whole; the mesh has x of 2 and y of 4.
struct Body {
  explicit Body(const std::string& lines, const std::string& callees = "",
                const std::string& ids = "")
      : module(parse_hlo(text(lines, callees, ids), "m.hlo")), analysis(*module->entry()->root()) {}

  static std::string text(const std::string& lines, const std::string& callees,
                          const std::string& ids) {
    const std::string mesh = R"(<mesh<["x"=2, "y"=4])" + ids + ">, ";
    return std::string("HloModule m, num_partitions=8\n") + kCallees + callees + R"(
body {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
)" + lines +
           R"(
}
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[4] parameter(1)
  ROOT m = f32[8] custom-call(a, b), custom_call_target="tessera.ManualComputation", in_shardings=[)" +
           mesh + R"([{"x"}]>, )" + mesh + R"([{}]>], out_shardings=[)" + mesh +
           R"([{"x"}]>], manual_axes=["x", "y"], called_computations={body}
}
)";
  }

  std::string of(const std::string& name) const {
    for (const auto& c : module->computations()) {
      for (const auto& i : c->instructions()) {
        if (i->name != name) continue;
        std::string out;
        for (const VaryingAxes& leaf : analysis[i.get()]) {
          out += out.empty() ? "" : " ";
          out += leaf.empty() ? "-" : "";
          for (const std::string& axis : leaf) out += axis;
        }
        return out;
      }
    }
    return "there is no " + name;
  }

  std::unique_ptr<Module> module;
  VaryingAnalysis analysis;
};

TEST(VaryingAxes, FollowOperands) {
  const Body b(R"(
  k = f32[4] constant({1, 2, 3, 4})
  s = f32[4] add(p, q)
  u = f32[4] multiply(q, k)
  v = f32[4] custom-call(u), custom_call_target="tessera.pvary", manual_axes=["y"]
  t = (f32[4], f32[4]) tuple(v, s)
  ROOT r = f32[4] get-tuple-element(t), index=1)");
  EXPECT_EQ(b.of("p"), "x");
  EXPECT_EQ(b.of("q"), "-");
  EXPECT_EQ(b.of("s"), "x");
  EXPECT_EQ(b.of("u"), "-");
  EXPECT_EQ(b.of("v"), "y");
  EXPECT_EQ(b.of("t"), "y x");
  EXPECT_EQ(b.of("r"), "x");
  EXPECT_EQ(b.analysis.results(), std::vector<VaryingAxes>{{"x"}});
}

TEST(VaryingAxes, CollectivesAddAxesAndTakeThemAway) {
  const Body b(R"(
  s = f32[4] all-reduce(p), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=add
  over_y = f32[4] all-reduce(p), channel_id=2, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=add
  half_y = f32[4] all-reduce(q), channel_id=3, replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true, to_apply=add
  g = f32[8] all-gather(p), channel_id=4, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, dimensions={0}
  w = f32[1] reduce-scatter(q), channel_id=5, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, dimensions={0}, to_apply=add
  turn = f32[4] collective-permute(q), channel_id=6, source_target_pairs={{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4}}
  some = f32[4] collective-permute(q), channel_id=7, source_target_pairs={{0,0},{1,1},{2,2},{3,3}}
  whole = f32[4] all-reduce(p), channel_id=8, replica_groups={}, use_global_device_ids=true, to_apply=add
  ROOT r = f32[4] negate(p))");
  EXPECT_EQ(b.of("s"), "-");
  EXPECT_EQ(b.of("over_y"), "x");
  // Groups that are no whole axis give what differs from group to group.
  EXPECT_EQ(b.of("half_y"), "y");
  EXPECT_EQ(b.of("g"), "-");
  EXPECT_EQ(b.of("w"), "y");
  EXPECT_EQ(b.of("turn"), "y");
  // Devices that get nothing have zeros.
  EXPECT_EQ(b.of("some"), "x");
  EXPECT_EQ(b.of("whole"), "-");
}

TEST(VaryingAxes, PositionsAreKnownByArithmetic) {
  const Body b(R"(
  id = u32[] partition-id()
  n = s32[] convert(id)
  four = s32[] constant(4)
  three = s32[] constant(3)
  x = s32[] divide(n, four)
  y = s32[] remainder(n, four)
  z = s32[] remainder(n, three)
  ROOT r = f32[4] negate(p))");
  EXPECT_EQ(b.of("id"), "xy");
  EXPECT_EQ(b.of("x"), "x");
  EXPECT_EQ(b.of("y"), "y");
  EXPECT_EQ(b.of("z"), "xy");
}

TEST(VaryingAxes, PositionsAreKnownByTables) {
  // Position p is held by device 7 - p.
  const Body b(R"(
  id = u32[] partition-id()
  table = s32[8] constant({1, 1, 1, 1, 0, 0, 0, 0})
  at = s32[1] dynamic-slice(table, id), dynamic_slice_sizes={1}
  ROOT r = f32[4] negate(p))",
               "", ", device_ids=[7,6,5,4,3,2,1,0]");
  EXPECT_EQ(b.of("at"), "x");
}

TEST(VaryingAxes, LoopsReachAFixedPoint) {
  const std::string loop = R"(
go { c = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
step { c2 = (s32[], f32[4], f32[4]) parameter(0)
  i2 = s32[] get-tuple-element(c2), index=0
  one = s32[] constant(1)
  j = s32[] add(i2, one)
  u = f32[4] get-tuple-element(c2), index=1
  v = f32[4] get-tuple-element(c2), index=2
  w = f32[4] add(u, v)
  ROOT next = (s32[], f32[4], f32[4]) tuple(j, w, v) }
)";
  const Body b(R"(
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[4]) tuple(zero, q, p)
  out = (s32[], f32[4], f32[4]) while(start), condition=go, body=step
  ROOT r = f32[4] get-tuple-element(out), index=1)",
               loop);
  EXPECT_EQ(b.of("start"), "- - x");
  EXPECT_EQ(b.of("out"), "- x x");
  EXPECT_EQ(b.of("r"), "x");
}

TEST(VaryingAxes, BranchesDifferWithWhatChoosesThem) {
  const std::string branches = R"(
yes { a1 = f32[4] parameter(0)
  ROOT n1 = f32[4] negate(a1) }
no { ROOT a2 = f32[4] parameter(0) }
)";
  const Body b(R"(
  id = u32[] partition-id()
  three = u32[] constant(3)
  half = pred[] compare(id, three), direction=GT
  t = pred[] constant(true)
  known = f32[4] conditional(t, q, q), true_computation=yes, false_computation=no
  own = f32[4] conditional(half, q, q), true_computation=yes, false_computation=no
  ROOT r = f32[4] negate(p))",
               branches);
  EXPECT_EQ(b.of("known"), "-");
  EXPECT_EQ(b.of("own"), "xy");
}

}  // namespace
}  // namespace tessera::ir
