// SPDX-License-Identifier: Apache-2.0
// The layouts that are chosen for single ops.
#include "src/spmd/partitioner/layout/layout_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "src/cost/count.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/propagation/propagate.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {
namespace {

MeshRef mesh() {
  static const MeshRef m = make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}});
  return m;
}

TensorSharding on(std::vector<IndexList> dims, IndexList unreduced = {}) {
  TensorSharding s = TensorSharding::replicated_on(mesh(), std::int64_t(dims.size()));
  for (std::size_t d = 0; d < dims.size(); ++d) s.dims[d].axes = dims[d];
  s.unreduced = std::move(unreduced);
  return s;
}

FactorRule dot_rule(std::int64_t m, std::int64_t k, std::int64_t n) {
  FactorRule rule;
  rule.factors = {{m}, {n}, {k, FactorKind::reduction}};
  rule.operands = {{{0}, {2}}, {{2}, {1}}};
  rule.results = {{{0}, {1}}};
  return rule;
}

ComputeLayout dot(std::int64_t m, std::int64_t k, std::int64_t n, const TensorSharding& lhs,
                  const TensorSharding& rhs, const TensorSharding& out) {
  return CompileContext().layouts.choose({dot_rule(m, k, n),
                                          {Shape(DType::f32, {m, k}), Shape(DType::f32, {k, n})},
                                          {lhs, rhs},
                                          {Shape(DType::f32, {m, n})},
                                          {out},
                                          2.0 * double(m) * double(k) * double(n)});
}

/// Bytes that one device receives, all reshards together.
double received(const ComputeLayout& l, std::int64_t m, std::int64_t k, std::int64_t n,
                const TensorSharding& lhs, const TensorSharding& rhs, const TensorSharding& out) {
  return plan_reshard(lhs, l.operands[0], {m, k}, 4).bytes_received +
         plan_reshard(rhs, l.operands[1], {k, n}, 4).bytes_received +
         plan_reshard(l.results[0], out, {m, n}, 4).bytes_received;
}

TEST(LayoutSearch, AgreementIsKept) {
  ComputeLayout l = dot(64, 64, 64, on({{0}, {}}), on({{}, {1, 2}}), on({{0}, {1, 2}}));
  EXPECT_EQ(l.factor_axes, (std::vector<IndexList>{{0}, {1, 2}, {}}));
  EXPECT_TRUE(l.operands[0].same_placement(on({{0}, {}})));
  EXPECT_TRUE(l.results[0].unreduced.empty());
}

TEST(LayoutSearch, ASplitSumIsUnreduced) {
  ComputeLayout l = dot(64, 64, 64, on({{}, {0}}), on({{0}, {}}), on({{}, {}}));
  EXPECT_EQ(l.results[0].unreduced, IndexList{0});
  EXPECT_TRUE(l.operands[0].same_placement(on({{}, {0}})));
}

TEST(LayoutSearch, ALayoutThatNoTensorHas) {
  // Rows of a tall operand stay; the small result is what moves.
  TensorSharding lhs = on({{1, 2, 0}, {}}), rhs = on({{}, {}}), out = on({{}, {1, 2, 0}});
  ComputeLayout l = dot(1024, 64, 16, lhs, rhs, out);
  EXPECT_EQ(l.factor_axes[0], (IndexList{1, 2, 0}));
  EXPECT_DOUBLE_EQ(received(l, 1024, 64, 16, lhs, rhs, out), 4 * 1792);
  // Neither operand nor result is split so: a on the sum, b and c on the rows.
  lhs = on({{}, {0}});
  rhs = on({{0}, {}});
  out = on({{1, 2, 0}, {}});
  l = dot(64, 64, 64, lhs, rhs, out);
  EXPECT_EQ(l.factor_axes[2], IndexList{0});
  EXPECT_EQ(l.factor_axes[0], (IndexList{1, 2}));
  EXPECT_DOUBLE_EQ(received(l, 64, 64, 64, lhs, rhs, out), 4 * 512);
}

TEST(LayoutSearch, AmongEqualsTheFirstDimIsSplit) {
  // A sum of gradients is scattered for the update of a parameter that all have.
  FactorRule rule;
  rule.factors = {{512}, {512}};
  rule.operands = {{{0}, {1}}, {{0}, {1}}};
  rule.results = {{{0}, {1}}};
  const Shape shape(DType::f32, {512, 512});
  const ComputeLayout l = CompileContext().layouts.choose({rule,
                                                           {shape, shape},
                                                           {on({{}, {}}), on({{}, {}}, {0})},
                                                           {shape},
                                                           {on({{}, {}})},
                                                           512 * 512});
  EXPECT_EQ(l.factor_axes[0].size(), 3U);
  EXPECT_TRUE(l.factor_axes[1].empty());
}

TEST(LayoutSearch, LargeWorkIsNotRepeated) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    auto any = [&] {
      std::vector<IndexList> dims(2);
      IndexList axes = {0, 1, 2};
      std::shuffle(axes.begin(), axes.end(), random);
      for (int a : axes) {
        if (auto d = random() % 3; d < 2) dims[d].push_back(a);
      }
      return on(dims);
    };
    TensorSharding lhs = any(), rhs = any(), out = any();
    ComputeLayout l = dot(1024, 1024, 1024, lhs, rhs, out);
    for (int a = 0; a < 3; ++a) {
      if (!lhs.uses_axis(a) && !rhs.uses_axis(a) && !out.uses_axis(a)) continue;
      auto uses = [&](const IndexList& f) { return std::find(f.begin(), f.end(), a) != f.end(); };
      EXPECT_EQ(std::count_if(l.factor_axes.begin(), l.factor_axes.end(), uses), 1)
          << lhs.to_string() << " " << rhs.to_string() << " " << out.to_string();
    }
  }
}

TEST(LayoutSearch, WorkOnAFewElementsIsNotRepeatedEither) {
  // Whatever the operands have: no more work a device than in the result's own layout.
  std::mt19937 random(7);
  FactorRule rule;
  rule.factors = {{16}};
  rule.operands = {{{0}}, {{0}}};
  rule.results = {{{0}}};
  const Shape shape(DType::f32, {16});
  auto any = [&] {
    IndexList axes = {0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), random);
    axes.resize(random() % 4);
    return on({axes});
  };
  for (int trial = 0; trial < 100; ++trial) {
    TensorSharding lhs = any(), rhs = any(), out = any();
    ComputeLayout l =
        CompileContext().layouts.choose({rule, {shape, shape}, {lhs, rhs}, {shape}, {out}, 16});
    EXPECT_GE(l.factor_axes[0].size(), out.dims[0].axes.size())
        << lhs.to_string() << " " << rhs.to_string() << " " << out.to_string();
  }
}

TEST(LayoutSearch, PartialOperandsAreReducedFirst) {
  ComputeLayout l = dot(64, 64, 64, on({{}, {}}, {0}), on({{}, {}}), on({{0}, {}}));
  EXPECT_TRUE(l.operands[0].unreduced.empty());
  // A reduce-scatter straight to rows.
  EXPECT_EQ(l.factor_axes[0], IndexList{0});
}

TEST(LayoutSearch, FactorsThatNeedReplicationGetNoAxes) {
  FactorRule rule;
  rule.factors = {{16}, {64, FactorKind::need_replication}};
  rule.operands = {{{0}, {1}}};
  rule.results = {{{0}, {1}}};
  Shape shape(DType::f32, {16, 64});
  ComputeLayout l = CompileContext().layouts.choose(
      {rule, {shape}, {on({{}, {0, 1}})}, {shape}, {on({{}, {0, 1}})}, 16 * 64});
  EXPECT_TRUE(l.factor_axes[1].empty());
  // The other dim takes over, rather than all devices doing all.
  for (int a : {0, 1}) {
    EXPECT_EQ(std::count(l.factor_axes[0].begin(), l.factor_axes[0].end(), a), 1);
  }
}

TEST(LayoutSearch, DimsOfSeveralFactorsHaveNoHoles) {
  // [ij] -> [i, j]: axes on j only where i is used up.
  FactorRule rule;
  rule.factors = {{4}, {8}};
  rule.operands = {{{0, 1}}};
  rule.results = {{{0}, {1}}};
  ComputeLayout l = CompileContext().layouts.choose({rule,
                                                     {Shape(DType::f32, {32})},
                                                     {on({{0}})},
                                                     {Shape(DType::f32, {4, 8})},
                                                     {on({{}, {1}})},
                                                     32});
  std::int64_t ways = 1 << l.factor_axes[0].size();
  EXPECT_TRUE(l.factor_axes[1].empty() || ways == 4);
}

TEST(LayoutSearch, ResultsAreDeterministic) {
  TensorSharding lhs = on({{2}, {0}}), rhs = on({{1}, {}}), out = on({{}, {2, 0}});
  ComputeLayout first = dot(64, 64, 64, lhs, rhs, out), second = dot(64, 64, 64, lhs, rhs, out);
  EXPECT_EQ(first.factor_axes, second.factor_axes);
  EXPECT_DOUBLE_EQ(first.cost, second.cost);
  EXPECT_EQ(second.operands[0].mesh, mesh());
}

// --- the sweeps of bench/, thinned --------------------------------------------------------------

void sweep(const std::string& file, int stride) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/bench/data/" + file);
  ASSERT_TRUE(in) << file;
  std::string text;
  int cases = 0;
  for (int line = 0; std::getline(in, text); ++line) {
    if (line % stride != 0) continue;
    auto json = nlohmann::json::parse(text);
    auto module = ir::parse_hlo(json["hlo"].get<std::string>());
    module->num_partitions = 8;
    propagate(module.get());
    PartitionReport report;
    auto device = partition(*module, {}, &report);
    cost::CommunicationCount count = cost::count_communication(*device);
    EXPECT_LE(count.total_bytes, 4 * json["xla"].get<double>()) << text;
    if (json.contains("xla_dot_flops")) {
      EXPECT_LE(count.dot_flops, json["xla_dot_flops"].get<double>()) << text;
    }
    ++cases;
  }
  EXPECT_GT(cases, 50);
}

TEST(Sweeps, DotsReceiveAndComputeNoMoreThanUnderXla) { sweep("dot_64.jsonl", 17); }
TEST(Sweeps, ReshardsReceiveNoMoreThanUnderXla) { sweep("reshard_64x64.jsonl", 23); }

// --- the count ----------------------------------------------------------------------------------

TEST(CommunicationCount, AddsWhatOneDeviceReceives) {
  auto module = ir::parse_hlo(R"(
HloModule m, num_partitions=8
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
body { s = f32[8,4] parameter(0)
  ROOT g = f32[8,4] all-reduce(s), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add }
condition { s = f32[8,4] parameter(0)
  ROOT t = pred[] constant(true) }
yes { y = f32[8,4] parameter(0)
  ROOT p = f32[8,4] collective-permute(y), source_target_pairs={{0,1},{1,0}} }
no { n = f32[8,4] parameter(0)
  ROOT q = f32[8,4] collective-permute(n), source_target_pairs={{0,0},{1,1}} }
ENTRY e {
  x = f32[8,4] parameter(0)
  c = pred[] parameter(1)
  w = f32[8,4] while(x), condition=condition, body=body,
    backend_config={"known_trip_count":{"n":"5"}}
  b = f32[8,4] conditional(c, w, w), true_computation=yes, false_computation=no
  h = f32[16,4] all-gather(b), dimensions={0}, replica_groups={{0,1},{2,3},{4,5},{6,7}}
  s = f32[4,4] reduce-scatter(h), dimensions={0}, replica_groups={{0,1,2,3},{4,5,6,7}},
    to_apply=add
  t = f32[4,4] all-to-all(s), dimensions={0}, replica_groups={{0,1},{2,3},{4,5},{6,7}}
  ROOT d = f32[4,4] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  cost::CommunicationCount c = cost::count_communication(*module);
  EXPECT_DOUBLE_EQ(c.kinds["all-reduce"].bytes, 5 * 2 * 128 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(c.kinds["collective-permute"].bytes, 128);
  EXPECT_DOUBLE_EQ(c.kinds["all-gather"].bytes, 128);
  EXPECT_DOUBLE_EQ(c.kinds["reduce-scatter"].bytes, 64 * 3);
  EXPECT_DOUBLE_EQ(c.kinds["all-to-all"].bytes, 32);
  EXPECT_DOUBLE_EQ(c.dot_flops, 2 * 4 * 4 * 4);
  EXPECT_EQ(c.unknown_trip_counts, 0);
  double total = 0;
  for (const auto& [name, kind] : c.kinds) total += kind.bytes;
  EXPECT_DOUBLE_EQ(c.total_bytes, total);
}

/// Reshards that are planned for a dot at these prices.
std::int64_t plans_made(CompileContext& context, const Network& network) {
  const TensorSharding rows = on({{0, 1, 2}, {}}), columns = on({{}, {2, 1, 0}});
  const std::int64_t before = context.reshards.plans_made();
  (void)context.layouts.choose({dot_rule(72, 136, 200),
                                {Shape(DType::f32, {72, 136}), Shape(DType::f32, {136, 200})},
                                {columns, rows},
                                {Shape(DType::f32, {72, 200})},
                                {columns},
                                2.0 * 72 * 136 * 200},
                               cost::Machine(network));
  return context.reshards.plans_made() - before;
}

// What is moved costs the same, whatever work does.
TEST(LayoutSearch, ReshardsArePlannedOnceWhateverWorkCosts) {
  CompileContext context;
  Network network = cost::assumed_network();
  EXPECT_GT(plans_made(context, network), 0);
  EXPECT_EQ(plans_made(context, network), 0);
  // All layouts are looked at, so that another price asks for no reshard that is new.
  const double flops = network.flops_per_second;
  network.flops_per_second = flops / 300;
  (void)plans_made(context, network);
  for (const double speed : {1.0, 1 / 300.0}) {
    network.flops_per_second = flops * speed;
    EXPECT_EQ(plans_made(context, network), 0) << speed;
  }
  network.start_seconds /= 256;
  EXPECT_GT(plans_made(context, network), 0);
}

}  // namespace
}  // namespace tessera::spmd
