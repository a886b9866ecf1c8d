// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of propagation, exchanges, the reshard planner and the layout search
// are true.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/propagation/factor_propagation.h"
#include "src/spmd/reshard/planner.h"
#include "src/spmd/reshard/row_exchange.h"
#include "tests/spmd/propagation_case.h"

namespace tessera::spmd {
namespace {

// ----- propagation/factor_propagation.cc

std::string text_of(const TensorSharding& s) {
  std::string text;
  for (const DimSharding& d : s.dims) {
    text += text.empty() ? "" : "|";
    if (d.axes.empty()) text += "-";
    for (std::size_t k = 0; k < d.axes.size(); ++k) {
      text += (k == 0 ? "" : ",") + s.mesh->axes[std::size_t(d.axes[k])].to_string();
    }
  }
  return text;
}

/// One step of propagation on the op that is called s: "lhs rhs -> result".
std::string step(const std::string& entry, const Shardings& given, bool aggressive) {
  const auto module = ir::parse_hlo("HloModule m\nENTRY e {\n" + entry + "}\n");
  module->num_partitions = default_mesh()->num_devices();
  module->mesh = default_mesh();
  for (const auto& [name, sharding] : given) {
    find(*module, name)->sharding = {parse(module->mesh, sharding)};
  }
  propagation::Graph graph = propagation::build_graph(module.get(), module->mesh);
  propagation::Permission all;
  all.enabled = true;
  std::string text;
  for (const propagation::Op& op : graph.ops) {
    if (op.instruction == nullptr || op.instruction->name != "s") continue;
    IndexList changed;
    propagation::propagate_op(&graph, op, all, aggressive, &changed);
    for (const int v : op.operands) {
      text += text_of(graph.values[std::size_t(v)].sharding) + " ";
    }
    text += "-> " + text_of(graph.values[std::size_t(op.results.at(0))].sharding);
  }
  return text;
}

constexpr const char* kSum = R"(
  a = f32[16,16] parameter(0)
  b = f32[16,16] parameter(1)
  s = f32[16,16] add(a, b)
  ROOT r = f32[16,16] negate(s)
)";
constexpr const char* kProduct = R"(
  a = f32[64,16] parameter(0)
  b = f32[16,8] parameter(1)
  s = f32[64,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,8] negate(s)
)";
constexpr const char* kMerge = R"(
  a = f32[2,8,4] parameter(0)
  s = f32[16,4] reshape(a)
  ROOT r = f32[16,4] negate(s)
)";

TEST(WorkedExamples, BasicPropagation) {
  EXPECT_EQ(step(kSum, {{"a", "x,y|-"}, {"b", "x?|-?"}}, false), "x,y|- x,y|- -> x,y|-");
  EXPECT_EQ(step(kSum, {{"a", "x,y|-"}, {"b", "x|-"}}, false), "x,y|- x|- -> x|-");
  EXPECT_EQ(step(kSum, {{"a", "x,y|-"}, {"b", "x,z|-"}}, false), "x,y|- x,z|- -> x|-");
  EXPECT_EQ(step(kSum, {{"a", "x|-"}, {"b", "-|x"}}, false), "x|- -|x -> -|-");
  EXPECT_EQ(step(kProduct, {{"a", "x|y"}}, false), "x|y y|- -> x|-");
  EXPECT_EQ(step(kProduct, {{"a", "x|-"}, {"b", "-|x"}}, false), "x|- -|x -> -|-");
  EXPECT_EQ(step(kMerge, {{"a", "x|y|-"}}, false), "x|y|- -> x,y|-");
}

TEST(WorkedExamples, AggressivePropagation) {
  EXPECT_EQ(step(kSum, {{"a", "x,y|-"}, {"b", "x|-"}}, true), "x,y|- x|- -> x,y|-");
  EXPECT_EQ(step(kSum, {{"a", "x,y|-"}, {"b", "x,z|-"}}, true), "x,y|- x,z|- -> x|-");
  EXPECT_EQ(step(kSum, {{"a", "x|-"}, {"b", "-|x"}}, true), "x|- -|x -> x|-");
  EXPECT_EQ(step(kProduct, {{"a", "x|-"}, {"b", "-|x"}}, true), "x|- -|x -> x|-");
}

// ----- reshard/row_exchange.h

void expect_move(const RowPermute& move, const Dims& target, const Dims& cut, const Dims& place,
                 std::int64_t rows) {
  EXPECT_TRUE(move.travels);
  EXPECT_EQ(move.target, target);
  EXPECT_EQ(move.rows, rows);
  for (std::size_t c = 0; c < target.size(); ++c) {
    if (target[c] < 0) continue;
    EXPECT_EQ(move.cut[c], cut[c]) << c;
    EXPECT_EQ(move.place[std::size_t(target[c])], place[std::size_t(target[c])]) << c;
  }
}

TEST(WorkedExamples, RouteOfAShift) {
  const RowSource part = spread_part(4, 8, 1, 0, 8);
  EXPECT_EQ(part.start, (Dims{1, 3, 5, 7}));
  const RowExchangePlan plan = plan_row_exchange({part}, 4, 8, 2);
  EXPECT_EQ(plan.permutes, 1);
  EXPECT_EQ(plan.rows_received, 1);
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_FALSE(plan.moves[0].travels);
  expect_move(plan.moves[1], {1, 2, 3, -1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1);
}

TEST(WorkedExamples, RouteOfAHalo) {
  const RowExchangePlan plan = plan_windows({block_part(4, 8, 2)}, {-1, 1, 3, 5}, 8, 4);
  EXPECT_EQ(plan.permutes, 2);
  EXPECT_EQ(plan.rows_received, 2);
  ASSERT_EQ(plan.moves.size(), 3u);
  EXPECT_FALSE(plan.moves[0].travels);
  expect_move(plan.moves[1], {1, 2, 3, -1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1);
  expect_move(plan.moves[2], {-1, 0, 1, 2}, {0, 0, 0, 0}, {3, 3, 3, 3}, 1);
}

TEST(WorkedExamples, RouteBetweenUnevenBlocks) {
  const RowExchangePlan plan = plan_row_exchange({block_part(4, 8, 3)}, 4, 8, 2);
  EXPECT_EQ(plan.permutes, 1);
  EXPECT_EQ(plan.rows_received, 2);
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[1].target, (Dims{1, 2, 3, -1}));
}

TEST(WorkedExamples, RouteOfAReversal) {
  std::vector<RowRun> pieces;
  for (std::int64_t c = 0; c < 4; ++c) pieces.push_back({c, 3 - c, 0, 0, 2, 0, 2});
  const RowExchangePlan plan = plan_pieces(pieces, 4, 2);
  EXPECT_EQ(plan.permutes, 1);
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].target, (Dims{3, 2, 1, 0}));
}

// ----- reshard/planner.cc, reshard/search.cc

MeshRef plan_mesh() {
  static const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  return mesh;
}

TensorSharding on_mesh(const std::string& text, const IndexList& unreduced = {}) {
  TensorSharding s = parse(plan_mesh(), text);
  s.unreduced = unreduced;
  return s;
}

const Dims kSquare{16, 16};

/// The steps as "kind sharding", and the plan's figures.
std::string steps_of(const ReshardPlan& plan) {
  static const char* const kNames[] = {"slice",   "all_gather", "all_to_all",
                                       "permute", "all_reduce", "reduce_scatter"};
  std::string text;
  for (const ReshardStep& s : plan.steps) {
    text += (text.empty() ? "" : "; ") + std::string(kNames[int(s.kind)]) + " " + text_of(s.after);
  }
  return text;
}

TEST(WorkedExamples, ReshardPlans) {
  const auto plan = [](const TensorSharding& from, const std::string& to) {
    return plan_reshard(from, on_mesh(to), kSquare, 4);
  };
  const ReshardPlan exchange = plan(on_mesh("y|-"), "-|y");
  EXPECT_EQ(steps_of(exchange), "all_to_all -|y");
  EXPECT_EQ(exchange.bytes_received, 192);

  const ReshardPlan narrow = plan(on_mesh("x|-"), "y|-");
  EXPECT_EQ(steps_of(narrow), "slice x,y|-; permute y,x|-; all_gather y|-");
  EXPECT_EQ(narrow.bytes_received, 256);
  EXPECT_EQ(narrow.collectives, 2);
  EXPECT_EQ(narrow.peak_bytes, 640);
  EXPECT_EQ(plan(on_mesh("x|-"), "-|-").peak_bytes, 1536);

  const ReshardPlan turned = plan(on_mesh("x,y|-"), "y|x");
  EXPECT_EQ(steps_of(turned), "permute y,x|-; all_to_all y|x");
  EXPECT_EQ(turned.bytes_received, 192);

  const ReshardPlan scattered = plan(on_mesh("-|-", {1}), "y|-");
  EXPECT_EQ(steps_of(scattered), "reduce_scatter y|-");
  EXPECT_EQ(scattered.bytes_received, 768);
  const ReshardPlan reduced = plan(on_mesh("-|-", {1}), "-|-");
  EXPECT_EQ(steps_of(reduced), "all_reduce -|-");
  EXPECT_EQ(reduced.bytes_received, 1536);
}

TEST(WorkedExamples, ReshardBounds) {
  const TensorSharding from = on_mesh("x|-"), to = on_mesh("y|-");
  const double byte = cost::Machine().least_of_bytes(1);
  EXPECT_NEAR(reshard_lower_bound(from, to, kSquare, 4) / byte, 512, 1e-9);
  EXPECT_NEAR(ReshardPlanner().price(from, to, kSquare, 4) / byte, 768, 0.01);
}

// ----- partitioner/layout/layout_search.cc

/// Of f32[m,k] times f32[k,n] on two devices: which of m, n and k is split, and bytes received for
/// the two operands and the result.
struct Chosen {
  std::string split;
  std::vector<double> bytes;
};
Chosen choose(std::int64_t m, std::int64_t k, std::int64_t n, const std::string& lhs,
              const std::string& rhs, const std::string& out) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}});
  FactorRule rule;
  rule.factors = {{m}, {n}, {k, FactorKind::reduction}};
  rule.operands = {{{0}, {2}}, {{2}, {1}}};
  rule.results = {{{0}, {1}}};
  const TensorSharding l = parse(mesh, lhs), r = parse(mesh, rhs), o = parse(mesh, out);
  const ComputeLayout layout =
      CompileContext().layouts.choose({rule,
                                       {Shape(DType::f32, {m, k}), Shape(DType::f32, {k, n})},
                                       {l, r},
                                       {Shape(DType::f32, {m, n})},
                                       {o},
                                       2.0 * double(m) * double(k) * double(n)});
  Chosen chosen;
  for (std::size_t f = 0; f < 3; ++f) {
    if (!layout.factor_axes[f].empty()) chosen.split += "mnk"[f];
  }
  chosen.bytes = {plan_reshard(l, layout.operands[0], {m, k}, 4).bytes_received,
                  plan_reshard(r, layout.operands[1], {k, n}, 4).bytes_received,
                  plan_reshard(layout.results[0], o, {m, n}, 4).bytes_received};
  return chosen;
}

/// Bytes received if the axis splits m, n or k of the product of x|- and -|x with the result x|-.
std::vector<double> bytes_if(char split, std::int64_t m, std::int64_t k, std::int64_t n) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}});
  const auto bytes = [&](const char* from, const char* to, const Dims& dims, bool sum = false) {
    TensorSharding source = parse(mesh, from);
    if (sum) source.unreduced = {0};
    return plan_reshard(source, parse(mesh, to), dims, 4).bytes_received;
  };
  const char* const left = split == 'm' ? "x|-" : split == 'k' ? "-|x" : "-|-";
  const char* const right = split == 'n' ? "-|x" : split == 'k' ? "x|-" : "-|-";
  const char* const out = split == 'm' ? "x|-" : split == 'n' ? "-|x" : "-|-";
  return {bytes("x|-", left, {m, k}), bytes("-|x", right, {k, n}),
          bytes(out, "x|-", {m, n}, split == 'k')};
}

TEST(WorkedExamples, LayoutCandidates) {
  using Bytes = std::vector<double>;
  EXPECT_EQ(bytes_if('m', 64, 64, 8), (Bytes{0, 1024, 0}));
  EXPECT_EQ(bytes_if('n', 64, 64, 8), (Bytes{8192, 0, 512}));
  EXPECT_EQ(bytes_if('k', 64, 64, 8), (Bytes{4096, 512, 1024}));
  EXPECT_EQ(bytes_if('m', 8, 64, 64), (Bytes{0, 8192, 0}));
  EXPECT_EQ(bytes_if('n', 8, 64, 64), (Bytes{1024, 0, 512}));
  EXPECT_EQ(bytes_if('k', 8, 64, 64), (Bytes{512, 4096, 1024}));
}

TEST(WorkedExamples, LayoutOfADot) {
  Chosen c = choose(64, 64, 8, "x|-", "-|x", "x|-");
  EXPECT_EQ(c.split, "m");
  EXPECT_EQ(c.bytes, (std::vector<double>{0, 1024, 0}));
  c = choose(8, 64, 64, "x|-", "-|x", "x|-");
  EXPECT_EQ(c.split, "n");
  EXPECT_EQ(c.bytes, (std::vector<double>{1024, 0, 512}));
  c = choose(8, 512, 8, "-|x", "x|-", "-|-");
  EXPECT_EQ(c.split, "k");
  EXPECT_EQ(c.bytes, (std::vector<double>{0, 0, 256}));
  EXPECT_EQ(choose(64, 64, 64, "-|-", "-|-", "-|-").split, "");
}

}  // namespace
}  // namespace tessera::spmd
