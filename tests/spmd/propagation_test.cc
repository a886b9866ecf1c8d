// SPDX-License-Identifier: Apache-2.0
// Propagation within one computation.
#include "tests/spmd/propagation_case.h"

namespace tessera::spmd {
namespace {

// --- elementwise

TEST(Propagation, ForwardAlongAChain) {
  check(kChain, {{"p", "x|y"}}, {{"n", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, BackwardAlongAChain) {
  check(kChain, {{"r", "y|x"}}, {{"n", "y|x"}, {"p", "y|x"}});
}
TEST(Propagation, WithoutShardingsNothingIsSplit) {
  check(kChain, {}, {{"p", "-|-"}, {"n", "-|-"}, {"r", "-|-"}});
}
TEST(Propagation, BothEndsMeetOnDifferentDims) {
  check(kChain, {{"p", "x?|-?"}, {"r", "-?|y?"}}, {{"p", "x|y"}, {"n", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, ClosedDimsStay) {
  check(kChain, {{"p", "x|-"}, {"r", "-?|y"}}, {{"p", "x|-"}, {"n", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, AClosedEmptyResultStopsItsOperands) {
  const std::string text = entry(R"(
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  ROOT r = f32[16] add(p, q))");
  check(text, {{"p", "x"}, {"r", "-"}}, {{"q", "-"}, {"r", "-"}});
  check(text, {{"p", "x"}, {"r", "-?"}}, {{"q", "x"}, {"r", "x"}});
}
TEST(Propagation, PrefixesGrow) {
  check(entry(R"(
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  ROOT r = f32[16] add(p, q))"),
        {{"p", "x"}, {"q", "x,y"}}, {{"r", "x,y"}});
}
TEST(Propagation, ConflictKeepsWhatIsCommon) {
  check(entry(R"(
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  ROOT r = f32[64] add(p, q))"),
        {{"p", "x,y"}, {"q", "x,z"}}, {{"r", "x"}});
}
TEST(Propagation, ReplicatedAxesStayOff) {
  check(kChain, {{"p", "x?|y?"}, {"r", "-?|-?~x"}}, {{"r", "-|y"}});
}
TEST(Propagation, PartsAlongAnAxisOfOneDeviceAreWhole) {
  auto module = ir::parse_hlo(kChain);
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"one", 1}});
  module->mesh = mesh;
  for (const auto& i : module->entry()->instructions()) {
    i->sharding = {TensorSharding::open_on(mesh, 2)};
    i->sharding[0].unreduced = {1};
    i->sharding[0].reduction = Reduction::max;
  }
  find(*module, "n")->sharding[0].unreduced = {0, 1};
  propagate(module.get());
  EXPECT_EQ(find(*module, "n")->sharding[0].unreduced, IndexList{0});
  EXPECT_EQ(find(*module, "n")->sharding[0].reduction, Reduction::max);
  // Callers see what they asked for.
  EXPECT_EQ(find(*module, "p")->sharding[0].unreduced, IndexList{1});
}
TEST(Propagation, UnreducedAxesStayOff) {
  auto module = ir::parse_hlo(kChain);
  MeshRef mesh = default_mesh();
  module->mesh = mesh;
  find(*module, "p")->sharding = {parse(mesh, "x|y")};
  find(*module, "n")->sharding = {TensorSharding::open_on(mesh, 2)};
  find(*module, "n")->sharding[0].unreduced = {0};
  propagate(module.get());
  EXPECT_EQ(print(find(*module, "n")->sharding[0]), "-|y");
  EXPECT_EQ(find(*module, "n")->sharding[0].unreduced.size(), 1u);
}
TEST(Propagation, UnevenDimsInsideTheProgram) {
  check(entry(R"(
  p = f32[16] parameter(0)
  s = f32[10] slice(p), slice={[3:13]}
  n = f32[10] negate(s)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(n, z), dimensions={0}, to_apply=add)",
              kAdd),
        {{"p", "y"}}, {{"s", "y"}, {"n", "y"}});
}
TEST(Propagation, ResultsAreSplitEvenlyOrNot) {
  check(entry(R"(
  p = f32[16] parameter(0)
  s = f32[10] slice(p), slice={[3:13]}
  ROOT t = (f32[10]) tuple(s))"),
        {{"p", "y"}}, {{"s", "y"}, {"t", "-"}});
}
TEST(Propagation, NoMorePartsThanElements) {
  check(entry(R"(
  p = f32[16] parameter(0)
  s = f32[3] slice(p), slice={[3:6]}
  z = f32[] constant(0)
  ROOT n = f32[] reduce(s, z), dimensions={0}, to_apply=add)",
              kAdd),
        {{"p", "y"}}, {{"s", "-"}});
}

// --- broadcast, transpose, reduce

TEST(Propagation, TransposeMovesDims) {
  check(entry(R"(
  p = f32[4,8,16] parameter(0)
  ROOT r = f32[16,4,8] transpose(p), dimensions={2,0,1})"),
        {{"p", "x|-|y"}}, {{"r", "y|x|-"}});
}
TEST(Propagation, ReduceKeepsTheOthers) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[16] reduce(p, z), dimensions={1}, to_apply=add)",
              kAdd),
        {{"p", "x|y"}}, {{"r", "x"}});
}
TEST(Propagation, BroadcastBothWays) {
  const std::string text = entry(R"(
  p = f32[8] parameter(0)
  ROOT r = f32[16,8] broadcast(p), dimensions={1})");
  check(text, {{"p", "x"}}, {{"r", "-|x"}});
  check(text, {{"r", "y|x"}}, {{"p", "x"}});
}
TEST(Propagation, ABroadcastScalarFollowsEachUser) {
  auto module = propagated(entry(R"(
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  one = f32[] constant(1)
  ones = f32[16] broadcast(one), dimensions={}
  a = f32[16] add(p, ones)
  b = f32[16] add(q, ones)
  ROOT t = (f32[16], f32[16]) tuple(a, b))"),
                           {{"p", "x"}, {"q", "y"}});
  EXPECT_EQ(print(find(*module, "a")->sharding[0]), "x");
  EXPECT_EQ(print(find(*module, "b")->sharding[0]), "y");
  EXPECT_EQ(print(find(*module, "a")->operand(1)->sharding[0]), "x");
  EXPECT_EQ(print(find(*module, "b")->operand(1)->sharding[0]), "y");
}
TEST(Propagation, AnIotaFollowsEachUser) {
  auto module = propagated(entry(R"(
  p = s32[16] parameter(0)
  q = s32[16] parameter(1)
  i = s32[16] iota(), iota_dimension=0
  d = s32[16] multiply(i, i)
  a = s32[16] add(p, d)
  b = s32[16] add(q, d)
  ROOT t = (s32[16], s32[16]) tuple(a, b))"),
                           {{"p", "x"}, {"q", "y"}});
  EXPECT_EQ(print(find(*module, "a")->sharding[0]), "x");
  EXPECT_EQ(print(find(*module, "b")->sharding[0]), "y");
}

// --- reshape

TEST(Propagation, ReshapeSplits) {
  check(entry(R"(
  p = f32[16,3] parameter(0)
  ROOT r = f32[2,8,3] reshape(p))"),
        {{"p", "x,y|-"}}, {{"r", "x|y|-"}});
}
TEST(Propagation, ReshapeMerges) {
  check(entry(R"(
  p = f32[2,8,3] parameter(0)
  ROOT r = f32[16,3] reshape(p))"),
        {{"p", "x|y|-"}}, {{"r", "x,y|-"}});
}
TEST(Propagation, MergingLeavesNoHoles) {
  // Only the minor part is split: not expressible on the merged dim.
  check(entry(R"(
  p = f32[2,8] parameter(0)
  ROOT r = f32[16] reshape(p))"),
        {{"p", "-|y"}}, {{"r", "-"}});
}
TEST(Propagation, ReshapeBackward) {
  check(entry(R"(
  p = f32[16] parameter(0)
  ROOT r = f32[4,4] reshape(p))"),
        {{"r", "y|x"}}, {{"p", "y,x"}});
}
TEST(Propagation, SubAxesAppearWhereADimIsShort) {
  // y (4) over [2, 8]: its major half on the 2, the minor half on the 8.
  auto module = propagated(entry(R"(
  p = f32[16] parameter(0)
  r = f32[2,8] reshape(p)
  n = f32[2,8] negate(r)
  z = f32[] constant(0)
  ROOT s = f32[] reduce(n, z), dimensions={0,1}, to_apply=add)",
                                 kAdd),
                           {{"p", "y"}});
  EXPECT_EQ(print(find(*module, "n")->sharding[0]), "y:(1)2|y:(2)2");
  EXPECT_EQ(print(find(*module, "p")->sharding[0]), "y:(1)2,y:(2)2");
  EXPECT_EQ(module->mesh->axes.size(), 4u);
}
TEST(Propagation, ResultsHaveWholeAxesOnly) {
  auto module = propagated(entry(R"(
  p = f32[16] parameter(0)
  ROOT r = f32[2,8] reshape(p))"),
                           {{"p", "y"}});
  EXPECT_EQ(print(find(*module, "r")->sharding[0]), "-|-");
  EXPECT_EQ(print(find(*module, "p")->sharding[0]), "y");
  EXPECT_EQ(module->mesh->axes, default_mesh()->axes);
}
TEST(Propagation, DivergingShapesShareTheirLeadingPiece) {
  check(entry(R"(
  p = f32[6,4] parameter(0)
  ROOT r = f32[4,6] reshape(p))"),
        {{"p", "x|y"}}, {{"r", "x|-"}});
}

// --- dot

const std::string kDot = entry(R"(
  p = f32[16,32] parameter(0)
  q = f32[32,64] parameter(1)
  ROOT r = f32[16,64] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0})");

TEST(Propagation, DotFreeDims) { check(kDot, {{"p", "x|-"}, {"q", "-|y"}}, {{"r", "x|y"}}); }
TEST(Propagation, DotContractingDimsAgree) {
  check(kDot, {{"p", "-|y"}}, {{"q", "y|-"}, {"r", "-|-"}});
}
TEST(Propagation, DotBackward) { check(kDot, {{"r", "x|y"}}, {{"p", "x|-"}, {"q", "-|y"}}); }
TEST(Propagation, TwoFactorsOneAxisTheLargerTensorWins) {
  // q is larger than p.
  check(kDot, {{"p", "y|-"}, {"q", "-|y"}}, {{"r", "-|y"}});
}
TEST(Propagation, DotBatchDims) {
  check(entry(R"(
  p = f32[4,16,32] parameter(0)
  q = f32[4,32,64] parameter(1)
  ROOT r = f32[4,16,64] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1})"),
        {{"p", "y|-|-"}}, {{"q", "y|-|-"}, {"r", "y|-|-"}});
}
TEST(Propagation, AnMlpStepIsDataAndModelParallel) {
  check(entry(R"(
  x = f32[64,32] parameter(0)
  w1 = f32[32,128] parameter(1)
  w2 = f32[128,16] parameter(2)
  h = f32[64,128] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  zeros = f32[64,128] broadcast(zero), dimensions={}
  a = f32[64,128] maximum(h, zeros)
  o = f32[64,16] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g2 = f32[128,16] dot(a, o), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new2 = f32[128,16] subtract(w2, g2)
  ROOT t = (f32[64,16], f32[128,16]) tuple(o, new2))"),
        {{"x", "x|-"}, {"w1", "-|y"}, {"w2", "y|-"}},
        {{"h", "x|y"},
         {"a", "x|y"},
         {"zeros", "x|y"},
         {"o", "x|-"},
         {"g2", "y|-"},
         {"new2", "y|-"},
         {"t#0", "x|-"},
         {"t#1", "y|-"}});
}

// --- other ops

TEST(Propagation, FftKeepsItsBatch) {
  check(entry(R"(
  p = c64[16,8] parameter(0)
  ROOT r = c64[16,8] fft(p), fft_type=FFT, fft_length={8})"),
        {{"p", "x|-"}}, {{"r", "x|-"}});
}
TEST(Propagation, ConcatenateAlongASplitDim) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  q = f32[16,8] parameter(1)
  ROOT r = f32[32,8] concatenate(p, q), dimensions={0})"),
        {{"p", "x|y"}}, {{"q", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, DynamicSliceKeepsFullDims) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  i = s32[] parameter(1)
  ROOT r = f32[1,8] dynamic-slice(p, i, i), dynamic_slice_sizes={1,8})"),
        {{"p", "x|y"}}, {{"r", "-|y"}});
}
TEST(Propagation, ACacheStaysSplitWhenItIsWritten) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  u = f32[2,8] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[16,8] dynamic-update-slice(p, u, i, i))"),
        {{"p", "x|y"}}, {{"u", "-|y"}, {"r", "x|y"}});
}
TEST(Propagation, RowsOfATable) {
  check(entry(R"(
  t = f32[100,16] parameter(0)
  i = s32[32,1] parameter(1)
  ROOT r = f32[32,16] gather(t, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,16})"),
        {{"t", "-|y"}, {"i", "x|-"}}, {{"r", "x|y"}});
}
TEST(Propagation, AnUnknownCallStopsPropagation) {
  check(entry(R"(
  p = f32[16] parameter(0)
  c = f32[16] custom-call(p), custom_call_target="who_knows"
  ROOT r = f32[16] negate(c))"),
        {{"p", "x"}}, {{"c", "-"}, {"r", "-"}});
}

// --- constraints

TEST(Propagation, AConstraintHolds) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  n = f32[16,8] negate(p)
  c = f32[16,8] custom-call(n), custom_call_target="Sharding"
  ROOT r = f32[16,8] abs(c))"),
        {{"p", "x|-"}, {"c", "-|y"}}, {{"n", "-|y"}, {"c", "-|y"}, {"r", "-|y"}});
}
TEST(Propagation, AnOpenConstraintGrows) {
  check(entry(R"(
  p = f32[16,8] parameter(0)
  n = f32[16,8] negate(p)
  c = f32[16,8] custom-call(n), custom_call_target="Sharding"
  ROOT r = f32[16,8] abs(c))"),
        {{"p", "x|-"}, {"c", "-?|y"}}, {{"c", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, DifferentConstraintsOnOneValue) {
  check(entry(R"(
  p = f32[16] parameter(0)
  n = f32[16] negate(p)
  c = f32[16] custom-call(n), custom_call_target="Sharding"
  d = f32[16] custom-call(n), custom_call_target="Sharding"
  e = f32[16] abs(c)
  f = f32[16] abs(d)
  ROOT t = (f32[16], f32[16]) tuple(e, f))"),
        {{"c", "x"}, {"d", "y"}}, {{"e", "x"}, {"f", "y"}, {"t#0", "x"}, {"t#1", "y"}});
}
TEST(Propagation, AnUnshardedConstraintReplicates) {
  check(entry(R"(
  p = f32[16] parameter(0)
  c = f32[16] custom-call(p), custom_call_target="Sharding"
  ROOT r = f32[16] abs(c))"),
        {{"p", "x"}, {"c", "-"}}, {{"p", "x"}, {"c", "-"}, {"r", "-"}});
}

TEST(Propagation, AReshardIsABorder) {
  const std::string text = entry(R"(
  p = f32[16,8] parameter(0)
  n = f32[16,8] negate(p)
  c = f32[16,8] custom-call(n), custom_call_target="Sharding",
    frontend_attributes={tessera.reshard="true"}
  ROOT r = f32[16,8] abs(c))");
  // Its operand may lie in any way, and what follows it adds nothing to it.
  check(text, {{"c", "x|-"}}, {{"p", "-|-"}, {"n", "-|-"}, {"c", "x|-"}, {"r", "x|-"}});
  check(text, {{"p", "-|y"}, {"c", "x|-?"}, {"r", "x|z"}},
        {{"n", "-|y"}, {"c", "x|-"}, {"r", "x|z"}});
}

// --- priorities

TEST(Propagation, UserPrioritiesGoFirst) {
  const std::string text = entry(R"(
  p = f32[64] parameter(0)
  q = f32[64] parameter(1)
  ROOT r = f32[64] add(p, q))");
  check(text, {{"p", "x?@1"}, {"q", "y?@0"}}, {{"r", "y"}});
  check(text, {{"p", "x?@0"}, {"q", "y?@1"}}, {{"r", "x"}});
}
TEST(Propagation, ALaterPriorityKeepsItsAxes) {
  // x is y's partner on p's dim 1 only from round 1 on, and nobody takes it before.
  check(entry(R"(
  p = f32[16,16] parameter(0)
  q = f32[16,16] parameter(1)
  ROOT r = f32[16,16] add(p, q))"),
        {{"p", "-?|x@1"}, {"q", "x?|-?"}}, {{"p", "-|x"}});
}
TEST(Propagation, ElementwiseBeforeDot) {
  // Through the dot r would be x|-; the sum with s decides before.
  check(entry(R"(
  p = f32[16,32] parameter(0)
  q = f32[32,16] parameter(1)
  s = f32[16,16] parameter(2)
  d = f32[16,16] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[16,16] add(d, s))"),
        {{"p", "x|-"}, {"s", "-|x"}}, {{"d", "-|x"}, {"r", "-|x"}});
}

}  // namespace
}  // namespace tessera::spmd
