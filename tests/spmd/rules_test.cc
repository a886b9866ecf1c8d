// SPDX-License-Identifier: Apache-2.0
// Factor rules, op by op.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/rules/factor_rule.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {
namespace {

/// The rule of the root of a program.
std::string rule_of(const std::string& entry, const std::string& others = "") {
  auto module = ir::parse_hlo("HloModule m\n" + others + "\nENTRY e {\n" + entry + "\n}\n");
  auto rule = rule_for(*module->entry()->root());
  return rule ? rule->to_string() : "none";
}

const char* const kAdd = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
)";
const char* const kSecond = R"(
second { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
)";

TEST(Rules, Elementwise) {
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\nROOT r = f32[8,4] add(p, p)"),
            "([i, j], [i, j])->([i, j]) {i=8, j=4}");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\nROOT r = s8[8] convert(p)"), "([i])->([i]) {i=8}");
  EXPECT_EQ(rule_of("c = pred[] parameter(0)\np = f32[8] parameter(1)\n"
                    "ROOT r = f32[8] select(c, p, p)"),
            "([], [i], [i])->([i]) {i=8}");
  EXPECT_EQ(rule_of("c = f32[] parameter(0)\np = f32[8] parameter(1)\n"
                    "ROOT r = f32[8] clamp(c, p, c)"),
            "([], [i], [])->([i]) {i=8}");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\nROOT r = pred[8] compare(p, p), direction=LT"),
            "([i], [i])->([i]) {i=8}");
}

TEST(Rules, Structure) {
  EXPECT_EQ(rule_of("p = f32[4] parameter(0)\nROOT r = f32[8,4] broadcast(p), dimensions={1}"),
            "([j])->([i, j]) {i=8, j=4}");
  EXPECT_EQ(rule_of("p = f32[4,6,8] parameter(0)\n"
                    "ROOT r = f32[8,4,6] transpose(p), dimensions={2,0,1}"),
            "([j, k, i])->([i, j, k]) {i=8, j=4, k=6}");
  EXPECT_EQ(rule_of("ROOT r = s32[4,8] iota(), iota_dimension=1"), "()->([i, j]) {i=4, j=8}");
  EXPECT_EQ(rule_of("p = f32[4,8] parameter(0)\nq = f32[4,2] parameter(1)\n"
                    "ROOT r = f32[4,10] concatenate(p, q), dimensions={1}"),
            "([i, j], [i, j])->([i, j]) {i=4, j=10} need_replication={j}");
  EXPECT_EQ(rule_of("p = f32[4,8] parameter(0)\n"
                    "ROOT r = f32[4,3] slice(p), slice={[0:4], [2:5]}"),
            "([i, j])->([i, j]) {i=4, j=8} permutation={j}");
  EXPECT_EQ(rule_of("p = f32[4,8] parameter(0)\nz = f32[] parameter(1)\n"
                    "ROOT r = f32[4,10] pad(p, z), padding=0_0x1_1"),
            "([i, j], [])->([i, j]) {i=4, j=10} permutation={j}");
  EXPECT_EQ(rule_of("p = f32[4,8] parameter(0)\nROOT r = f32[4,8] reverse(p), dimensions={0}"),
            "([i, j])->([i, j]) {i=4, j=8} permutation={i}");
  EXPECT_EQ(rule_of("p = f32[4] parameter(0)\nROOT r = u8[4,4] bitcast-convert(p)"),
            "([i])->([i, j]) {i=4, j=4} need_replication={j}");
}

TEST(Rules, ReshapeWalksCommonPieces) {
  auto reshape = [](const std::string& from, const std::string& to) {
    return rule_of("p = f32[" + from + "] parameter(0)\nROOT r = f32[" + to + "] reshape(p)");
  };
  EXPECT_EQ(reshape("8", "2,4"), "([ij])->([i, j]) {i=2, j=4}");
  EXPECT_EQ(reshape("2,4", "8"), "([i, j])->([ij]) {i=2, j=4}");
  EXPECT_EQ(reshape("4,6", "4,2,3"), "([i, jk])->([i, j, k]) {i=4, j=2, k=3}");
  EXPECT_EQ(reshape("64,768", "64,12,64"), "([i, jk])->([i, j, k]) {i=64, j=12, k=64}");
  EXPECT_EQ(reshape("4,4,4", "8,8"), "([i, jk, l])->([ij, kl]) {i=4, j=2, k=2, l=4}");
  EXPECT_EQ(reshape("1,8", "8,1"), "([j, i])->([i, k]) {i=8, j=1, k=1}");
  // 6×4 and 4×6 have the leading 2 in common, no more.
  EXPECT_EQ(reshape("6,4", "4,6"), "([ij, m])->([ik, l]) {i=2, j=3, k=2, l=6, m=4}");
  EXPECT_EQ(reshape("0,4", "4,0"), "none");
}

TEST(Rules, Contractions) {
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\nq = f32[4,16] parameter(1)\n"
                    "ROOT r = f32[8,16] dot(p, q), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}"),
            "([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}");
  EXPECT_EQ(rule_of("p = f32[3,8,4] parameter(0)\nq = f32[16,4,3] parameter(1)\n"
                    "ROOT r = f32[3,8,16] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={2}, "
                    "lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
            "([i, j, l], [k, l, i])->([i, j, k]) {i=3, j=8, k=16, l=4} reduction={l}");
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\nz = f32[] parameter(1)\n"
                    "ROOT r = f32[8] reduce(p, z), dimensions={1}, to_apply=add",
                    kAdd),
            "([i, j], [])->([i]) {i=8, j=4} reduction={j}");
  EXPECT_EQ(rule_of("p = f32[8,9] parameter(0)\nz = f32[] parameter(1)\n"
                    "ROOT r = f32[8,7] reduce-window(p, z), window={size=1x3}, to_apply=add",
                    kAdd),
            "([i, j], [])->([i, j]) {i=8, j=9} permutation={j}");
  EXPECT_EQ(rule_of("x = f32[2,16,16,8] parameter(0)\nw = f32[3,3,8,32] parameter(1)\n"
                    "ROOT r = f32[2,16,16,32] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                    "dim_labels=b01f_01io->b01f"),
            "([i, l, n, j], [m, o, j, k])->([i, l, n, k]) {i=2, j=8, k=32, l=16, m=3, n=16, o=3} "
            "reduction={j} need_replication={m, o} permutation={l, n}");
}

TEST(Rules, DimsThatNeedReplication) {
  EXPECT_EQ(rule_of("p = c64[8,4] parameter(0)\n"
                    "ROOT r = c64[8,4] fft(p), fft_type=FFT, fft_length={4}"),
            "([i, j])->([i, j]) {i=8, j=4} need_replication={j}");
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\n"
                    "ROOT r = c64[8,3] fft(p), fft_type=RFFT, fft_length={4}"),
            "([i, j])->([i, k]) {i=8, j=4, k=3} need_replication={j, k} "
            "blocked_propagation={j, k}");
  const char* less = R"(
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
)";
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\n"
                    "ROOT r = f32[8,4] sort(p), dimensions={1}, to_apply=less",
                    less),
            "([i, j])->([i, j]) {i=8, j=4} need_replication={j}");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\n"
                    "ROOT r = f32[8] sort(p), dimensions={0}, to_apply=less",
                    less),
            "([i])->([i]) {i=8} need_replication={i} blocked_propagation={i}");
  EXPECT_EQ(rule_of("p = f32[3,4,4] parameter(0)\nROOT r = f32[3,4,4] cholesky(p), lower=true"),
            "([i, j, k])->([i, j, k]) {i=3, j=4, k=4} need_replication={j, k}");
  EXPECT_EQ(rule_of("a = f32[3,4,4] parameter(0)\nb = f32[3,4,5] parameter(1)\n"
                    "ROOT r = f32[3,4,5] triangular-solve(a, b), left_side=true, lower=true, "
                    "transpose_a=NO_TRANSPOSE"),
            "([i, j, k], [i, m, l])->([i, m, l]) {i=3, j=4, k=4, l=5, m=4} "
            "need_replication={j, k, m}");
}

TEST(Rules, Indexing) {
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\ni = s32[] parameter(1)\n"
                    "ROOT r = f32[1,4] dynamic-slice(p, i, i), dynamic_slice_sizes={1,4}"),
            "([i, k], [], [])->([j, k]) {i=8, j=1, k=4} need_replication={i, j} "
            "blocked_propagation={i, j}");
  EXPECT_EQ(rule_of("p = f32[8,4] parameter(0)\nu = f32[2,4] parameter(1)\n"
                    "i = s32[] parameter(2)\n"
                    "ROOT r = f32[8,4] dynamic-update-slice(p, u, i, i)"),
            "([i, k], [j, k], [], [])->([i, k]) {i=8, j=2, k=4} need_replication={j}");
  // Rows of a table.
  EXPECT_EQ(rule_of("t = f32[100,16] parameter(0)\ni = s32[32,1] parameter(1)\n"
                    "ROOT r = f32[32,16] gather(t, i), offset_dims={1}, "
                    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                    "slice_sizes={1,16}"),
            "([k, l], [i, j])->([i, l]) {i=32, j=1, k=100, l=16} reduction={k} "
            "need_replication={j}");
  const std::string scatter =
      "t = f32[100,16] parameter(0)\ni = s32[32,1] parameter(1)\nu = f32[32,16] parameter(2)\n"
      "ROOT r = f32[100,16] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=";
  EXPECT_EQ(rule_of(scatter + "add", kAdd),
            "([k, l], [i, j], [i, l])->([k, l]) {i=32, j=1, k=100, l=16} reduction={i} "
            "need_replication={j}");
  // The last writer wins: places of updates must not be shared out.
  EXPECT_EQ(rule_of(scatter + "second", kSecond),
            "([k, l], [i, j], [i, l])->([k, l]) {i=32, j=1, k=100, l=16} need_replication={i, j}");
}

TEST(Rules, NoneForDataFlowAndTheUnknown) {
  EXPECT_EQ(rule_of("ROOT c = f32[2] constant({1, 2})"), "none");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\nROOT r = (f32[8]) tuple(p)"), "none");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\n"
                    "ROOT r = f32[8] custom-call(p), custom_call_target=\"who_knows\""),
            "none");
  EXPECT_EQ(rule_of("p = f32[8] parameter(0)\n"
                    "ROOT r = f32[8] custom-call(p), custom_call_target=\"Sharding\""),
            "([i])->([i]) {i=8}");
}

TEST(Rules, ASpecBecomesARule) {
  ir::FactorRuleSpec spec;
  spec.factor_names = {"i", "j", "k"};
  spec.factor_sizes = {8, 16, 4};
  spec.operands = {{{0}, {2}}, {{2}, {1}}};
  spec.results = {{{0}, {1}}};
  spec.reduction = {2};
  EXPECT_EQ(from_spec(spec).to_string(),
            "([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}");
  spec.blocked = {1, 2};
  EXPECT_EQ(from_spec(spec).to_string(),
            "([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k} "
            "blocked_propagation={j, k}");
  EXPECT_EQ(spec.to_string(),
            "#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k} "
            "blocked_propagation={j, k}, custom>");
  spec.blocked = {3};
  EXPECT_THROW(from_spec(spec), InternalError);
  spec.blocked = {};
  spec.permutation = {3};
  EXPECT_THROW(from_spec(spec), InternalError);
}

class ProjectionTest : public ::testing::Test {
 protected:
  // Dim 0 = factors 0 (4) and 1 (6), dim 1 = factor 2 (8).
  ProjectionTest() {
    rule.factors = {{4}, {6}, {8}};
    tensor = {{0, 1}, {2}};
    rule.operands = {tensor};
    mesh = make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 3}, {"d", 4}});
  }
  Projection on(IndexList first, IndexList second) {
    TensorSharding s = TensorSharding::open_on(mesh, 2);
    s.dims[0].axes = std::move(first);
    s.dims[1].axes = std::move(second);
    return project(*mesh, rule, tensor, s);
  }
  FactorRule rule;
  TensorFactors tensor;
  MeshRef mesh;
};

TEST_F(ProjectionTest, FillsFactorsFromTheMajorSide) {
  Projection p = on({0, 1, 2}, {3});
  EXPECT_EQ(p.factors[0].axes, (IndexList{0, 1}));
  EXPECT_EQ(p.factors[1].axes, IndexList{2});
  EXPECT_EQ(p.factors[2].axes, IndexList{3});
  EXPECT_FALSE(p.overflow);
  EXPECT_FALSE(p.factors[0].extendable);
  EXPECT_TRUE(p.factors[1].extendable);
}

TEST_F(ProjectionTest, StopsWhereAnAxisDoesNotFit) {
  // 3 doesn't divide the 2 left of the first factor, and another factor follows.
  Projection p = on({0, 2}, {});
  EXPECT_EQ(p.factors[0].axes, IndexList{0});
  EXPECT_TRUE(p.factors[1].axes.empty());
  EXPECT_TRUE(p.overflow);
  // The minor-most factor takes what doesn't divide it.
  Projection q = on({}, {2});
  EXPECT_EQ(q.factors[2].axes, IndexList{2});
  EXPECT_FALSE(q.overflow);
}

TEST_F(ProjectionTest, AxesBehindAnUnfilledFactorAreDropped) {
  bool complete = true;
  EXPECT_EQ(dim_axes(*mesh, rule, {0, 1}, {{0, 1}, {2}, {}}, &complete), (IndexList{0, 1, 2}));
  EXPECT_TRUE(complete);
  EXPECT_EQ(dim_axes(*mesh, rule, {0, 1}, {{0}, {2}, {}}, &complete), IndexList{0});
  EXPECT_FALSE(complete);
}

/// The function that the op table names, "none" included.
std::string named_rule(ir::Opcode op) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, ...) OP_RULE(factors)
#define OP_RULE(factors) #factors,
  static const char* const names[] = {
#include "src/ir/opcode_list.inc"
  };
#undef OP_RULE
  return names[std::size_t(op)];
}

TEST(Rules, EachOpHasTheOneThatTheTableNames) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/ir/data/all_ops.hlo");
  std::stringstream text;
  text << in.rdbuf();
  const auto module = ir::parse_hlo(text.str(), "all_ops.hlo");
  int with = 0, without = 0;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      SCOPED_TRACE(i->describe());
      const std::string named = named_rule(i->opcode);
      const bool has = rule_for(*i).has_value();
      ++(has ? with : without);
      // The target of a custom call decides, a custom_partitioning may state a rule of its own, and
      // collectives of several arrays have none.
      if (named == "custom_call" || named == "custom_partitioning") continue;
      if (named == "collective" && !i->shape.is_array()) continue;
      EXPECT_EQ(has, named != "none") << named;
    }
  }
  EXPECT_GT(with, 80);
  EXPECT_GT(without, 40);
}

}  // namespace
}  // namespace tessera::spmd
