// SPDX-License-Identifier: Apache-2.0
// Programs with some shardings given, and those that propagation must find.
//
// Shardings are written by dim, separated by bars: "x,y|-?" has axes x and y on dim 0, none on the
// open dim 1. "@1" is a priority, "~z" an axis that stays off the array, "#2" after a name a leaf.
#include "src/spmd/propagation/propagate.h"

#include <gtest/gtest.h>

#include <sstream>

#include "src/ir/hlo_text.h"
#include "src/ir/hooks.h"

namespace tessera::spmd {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) parts.push_back(part);
  if (!text.empty() && text.back() == at) parts.push_back("");
  return parts;
}

TensorSharding parse(const MeshRef& mesh, std::string text) {
  TensorSharding s = TensorSharding::replicated_on(mesh, 0);
  if (auto at = text.find('~'); at != std::string::npos) {
    for (const std::string& axis : split(text.substr(at + 1), ',')) {
      s.replicated.push_back(mesh->find(axis));
    }
    text.resize(at);
  }
  for (std::string dim : split(text, '|')) {
    DimSharding d;
    if (auto at = dim.find('@'); at != std::string::npos) {
      d.priority = std::stoi(dim.substr(at + 1));
      dim.resize(at);
    }
    if (!dim.empty() && dim.back() == '?') {
      d.open = true;
      dim.pop_back();
    }
    for (const std::string& axis : split(dim, ',')) {
      if (axis != "-" && !axis.empty()) d.axes.push_back(mesh->find(axis));
    }
    s.dims.push_back(std::move(d));
  }
  return s;
}

std::string print(const TensorSharding& s) {
  std::string text;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    if (d > 0) text += "|";
    std::string axes;
    for (int a : s.dims[d].axes) {
      axes += (axes.empty() ? "" : ",") + s.mesh->axes[std::size_t(a)].to_string();
    }
    text += axes.empty() ? "-" : axes;
    EXPECT_FALSE(s.dims[d].open);
  }
  return text;
}

ir::Instruction* find(const ir::Module& module, const std::string& name) {
  for (auto c = module.computations().rbegin(); c != module.computations().rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      if (i->name == name) return i.get();
    }
  }
  ADD_FAILURE() << "no instruction " << name;
  return nullptr;
}

std::pair<std::string, std::size_t> leaf(const std::string& name) {
  auto at = name.find('#');
  if (at == std::string::npos) return {name, 0};
  return {name.substr(0, at), std::size_t(std::stoi(name.substr(at + 1)))};
}

using Shardings = std::vector<std::pair<std::string, std::string>>;

MeshRef default_mesh() { return make_logical_mesh({{"x", 2}, {"y", 4}, {"z", 2}}); }

std::unique_ptr<ir::Module> propagated(const std::string& text, const Shardings& given,
                                       const MeshRef& mesh = default_mesh()) {
  auto module = ir::parse_hlo(text);
  module->num_partitions = mesh->num_devices();
  module->mesh = mesh;
  for (const auto& [key, sharding] : given) {
    auto [name, k] = leaf(key);
    ir::Instruction* i = find(*module, name);
    std::vector<Shape> leaves = flatten(i->shape);
    if (i->sharding.empty()) {
      for (const Shape& l : leaves) i->sharding.push_back(TensorSharding::open_on(mesh, l.rank()));
    }
    i->sharding[k] = parse(mesh, sharding);
  }
  propagate(module.get());
  return module;
}

void expect(const ir::Module& module, const Shardings& expected) {
  for (const auto& [key, sharding] : expected) {
    auto [name, k] = leaf(key);
    const ir::Instruction* i = find(module, name);
    ASSERT_GT(i->sharding.size(), k) << key;
    EXPECT_EQ(print(i->sharding[k]), sharding) << key;
  }
}

void check(const std::string& text, const Shardings& given, const Shardings& expected) {
  expect(*propagated(text, given), expected);
}

std::string entry(const std::string& body, const std::string& others = "") {
  return "HloModule m\n" + others + "\nENTRY e {\n" + body + "\n}\n";
}

const char* const kAdd = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
)";

// --- elementwise
// -----------------------------------------------------------------------------------

const std::string kChain = entry(R"(
  p = f32[16,16] parameter(0)
  n = f32[16,16] negate(p)
  ROOT r = f32[16,16] exponential(n))");

TEST(Propagation, ForwardAlongAChain) {
  check(kChain, {{"p", "x|y"}}, {{"n", "x|y"}, {"r", "x|y"}});
}
TEST(Propagation, BackwardAlongAChain) {
  check(kChain, {{"r", "y|x"}}, {{"n", "y|x"}, {"p", "y|x"}});
}
TEST(Propagation, NothingGivenNothingSplit) {
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
// ------------------------------------------------------------------

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
// ---------------------------------------------------------------------------------------

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
// -------------------------------------------------------------------------------------------

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
// -------------------------------------------------------------------------------------

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
// -----------------------------------------------------------------------------------

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

// --- priorities
// ------------------------------------------------------------------------------------

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

// --- data flow
// -------------------------------------------------------------------------------------

TEST(Propagation, ThroughTuples) {
  check(entry(R"(
  p = f32[16] parameter(0)
  q = f32[8] parameter(1)
  t = (f32[16], f32[8]) tuple(p, q)
  g = f32[8] get-tuple-element(t), index=1
  ROOT r = f32[8] negate(g))"),
        {{"q", "x"}}, {{"t#0", "-"}, {"t#1", "x"}, {"g", "x"}, {"r", "x"}});
}
TEST(Propagation, ThroughBarriers) {
  check(entry(R"(
  p = f32[16] parameter(0)
  q = f32[8] parameter(1)
  t = (f32[16], f32[8]) tuple(p, q)
  b = (f32[16], f32[8]) opt-barrier(t)
  ROOT g = f32[8] get-tuple-element(b), index=1)"),
        {{"q", "x"}}, {{"b#1", "x"}, {"g", "x"}});
}

const std::string kLoop = entry(R"(
  p = f32[16,16] parameter(0)
  i = s32[] constant(0)
  init = (s32[], f32[16,16]) tuple(i, p)
  w = (s32[], f32[16,16]) while(init), condition=condition, body=body
  ROOT r = f32[16,16] get-tuple-element(w), index=1)",
                                R"(
condition {
  cs = (s32[], f32[16,16]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(ci, n), direction=LT
}
body {
  bs = (s32[], f32[16,16]) parameter(0)
  bi = s32[] get-tuple-element(bs), index=0
  one = s32[] constant(1)
  bn = s32[] add(bi, one)
  bx = f32[16,16] get-tuple-element(bs), index=1
  by = f32[16,16] negate(bx)
  ROOT next = (s32[], f32[16,16]) tuple(bn, by)
}
)");

TEST(Propagation, ALoopCarriesForward) {
  check(kLoop, {{"p", "x|y"}},
        {{"init#1", "x|y"},
         {"w#1", "x|y"},
         {"bs#1", "x|y"},
         {"cs#1", "x|y"},
         {"by", "x|y"},
         {"next#1", "x|y"},
         {"r", "x|y"}});
}
TEST(Propagation, ALoopCarriesBackward) {
  check(kLoop, {{"r", "x|y"}},
        {{"p", "x|y"}, {"init#1", "x|y"}, {"w#1", "x|y"}, {"bs#1", "x|y"}, {"next#1", "x|y"}});
}
TEST(Propagation, ALoopCarriesFromItsBody) {
  check(kLoop, {{"by", "-|y"}},
        {{"p", "-|y"},
         {"w#1", "-|y"},
         {"bs#1", "-|y"},
         {"cs#1", "-|y"},
         {"next#1", "-|y"},
         {"r", "-|y"}});
}
TEST(Propagation, ALoopsCarryAgreesThoughItsEndsDiffer) {
  auto module = propagated(kLoop, {{"p", "x|-"}, {"by", "-|y"}, {"r", "y|-"}});
  for (const char* name : {"bs", "cs", "next"}) {
    EXPECT_TRUE(find(*module, name)->sharding[1].same_placement(find(*module, "w")->sharding[1]))
        << name;
  }
  expect(*module, {{"p", "x|-"}, {"by", "-|y"}});
}

const std::string kBranches = entry(R"(
  c = pred[] parameter(0)
  p = f32[16] parameter(1)
  q = f32[16] parameter(2)
  b = f32[16] conditional(c, p, q), true_computation=yes, false_computation=no
  ROOT r = f32[16] abs(b))",
                                    R"(
yes {
  yp = f32[16] parameter(0)
  ROOT yn = f32[16] negate(yp)
}
no {
  np = f32[16] parameter(0)
  ROOT nn = f32[16] exponential(np)
}
)");

TEST(Propagation, BranchesAgree) {
  check(kBranches, {{"p", "x"}}, {{"yp", "x"}, {"yn", "x"}, {"nn", "x"}, {"b", "x"}, {"r", "x"}});
  check(kBranches, {{"r", "y"}}, {{"yn", "y"}, {"nn", "y"}, {"p", "y"}, {"q", "y"}});
}
TEST(Propagation, BranchesWithRootsOfTheirOwnAgree) {
  auto module = propagated(kBranches, {{"yn", "x"}, {"nn", "y"}});
  const auto* b = find(*module, "b");
  EXPECT_EQ(print(find(*module, "yn")->sharding[0]), "x");
  EXPECT_EQ(print(find(*module, "nn")->sharding[0]), "y");
  for (const ir::Computation* branch : b->called) {
    EXPECT_TRUE(branch->root()->sharding[0].same_placement(b->sharding[0]));
  }
}
TEST(Propagation, CalleesAreSharedByTheirCallers) {
  const std::string text = entry(R"(
  p = f32[16] parameter(0)
  q = f32[16] parameter(1)
  a = f32[16] call(p), to_apply=twice
  b = f32[16] call(q), to_apply=twice
  ROOT t = (f32[16], f32[16]) tuple(a, b))",
                                 R"(
twice {
  tp = f32[16] parameter(0)
  ROOT tr = f32[16] add(tp, tp)
}
)");
  check(text, {{"p", "x"}}, {{"tp", "x"}, {"tr", "x"}, {"a", "x"}, {"b", "x"}, {"q", "x"}});
}
TEST(Propagation, ADonatedArgumentLiesLikeItsResult) {
  check("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n" +
            entry(R"(
  p = f32[16] parameter(0)
  i = s32[16] parameter(1)
  g = f32[16] custom-call(p, i), custom_call_target="who_knows"
  ROOT t = (f32[16]) tuple(g))")
                .substr(std::string("HloModule m\n").size()),
        {{"p", "x"}}, {{"t#0", "x"}});
}

// --- meshes
// ----------------------------------------------------------------------------------------

TEST(Propagation, RefinementsOfOneMeshMeet) {
  MeshRef mesh = make_logical_mesh({{"x", 8}});
  MeshRef cut = refine(mesh, {{2, 4}});
  auto module = ir::parse_hlo(kChain);
  module->mesh = mesh;
  find(*module, "p")->sharding = {TensorSharding::open_on(mesh, 2)};
  find(*module, "p")->sharding[0].dims[0].axes = {0};
  TensorSharding part = TensorSharding::open_on(cut, 2);
  part.dims[0].axes = {0};
  part.dims[0].open = false;
  find(*module, "r")->sharding = {part};
  propagate(module.get());
  EXPECT_EQ(module->mesh->axes, cut->axes);
  EXPECT_EQ(print(find(*module, "p")->sharding[0]), "x:(1)2,x:(2)4|-");
  EXPECT_EQ(print(find(*module, "r")->sharding[0]), "x:(1)2|-");
}
TEST(Propagation, AnotherDeviceOrderIsSaidOnTheCommonMesh) {
  // Transposed order: its x is y here.
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 2}});
  MeshRef other = make_logical_mesh({{"x", 2}, {"y", 2}}, {0, 2, 1, 3}, "other");
  auto module = ir::parse_hlo(kChain);
  module->mesh = mesh;
  module->num_partitions = 4;
  TensorSharding s = TensorSharding::replicated_on(mesh, 2);
  s.dims[0].axes = {0};
  find(*module, "n")->sharding = {s};
  find(*module, "p")->sharding = {s};
  TensorSharding t = TensorSharding::replicated_on(other, 2);
  t.dims[1].axes = {0};
  find(*module, "r")->sharding = {t};
  propagate(module.get());
  EXPECT_EQ(print(find(*module, "r")->sharding[0]), "-|y");
}
TEST(Propagation, AllShardingsAreOnTheModulesMesh) {
  auto module = propagated(kLoop, {{"p", "x|y"}});
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      ASSERT_EQ(i->sharding.size(), flatten(i->shape).size()) << i->name;
      for (const TensorSharding& s : i->sharding) EXPECT_EQ(s.mesh, module->mesh) << i->name;
    }
  }
}

// --- custom_partitioning
// ---------------------------------------------------------------------------

/// Keeps all dims but the last split, as a transform along the last dim would.
class Batched : public ir::CustomPartitioner {
 public:
  std::string name() const override { return "batched"; }
  std::optional<ir::FactorRuleSpec> rule(const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
                                         const std::vector<ir::ShapeWithSharding>&) override {
    return spec;
  }
  bool has_infer_callback() const override { return infers; }
  bool has_propagate_callback() const override { return suggests; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
      const std::vector<ir::ShapeWithSharding>& results) override {
    ++calls;
    EXPECT_FALSE(results.at(0).sharding.has_value());
    EXPECT_EQ(args.at(0).sharding->mesh, mesh);
    TensorSharding s = *args.at(0).sharding;
    s.dims.back().axes.clear();
    return {s};
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>& results) override {
    ++suggestions;
    TensorSharding s = *results.at(0).sharding;
    s.dims.back().axes.clear();
    return {s};
  }
  Partition partition(ir::Module*, const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
                      const std::vector<ir::ShapeWithSharding>&) override {
    return {};
  }

  std::optional<ir::FactorRuleSpec> spec;
  bool infers = true, suggests = false;
  int calls = 0, suggestions = 0;
};

std::unique_ptr<ir::Module> with_partitioner(std::shared_ptr<Batched> hook,
                                             const Shardings& given) {
  auto module = ir::parse_hlo(entry(R"(
  p = f32[16,8] parameter(0)
  a = f32[16,8] abs(p)
  c = f32[16,8] custom-call(a), custom_call_target="CustomSPMDPartitioning"
  n = f32[16,8] negate(c)
  ROOT t = (f32[16,8]) tuple(n))"));
  MeshRef mesh = default_mesh();
  module->mesh = mesh;
  find(*module, "c")->get<ir::CustomCallAttrs>().partitioner = std::move(hook);
  for (const auto& [name, s] : given) find(*module, name)->sharding = {parse(mesh, s)};
  propagate(module.get());
  return module;
}

TEST(Propagation, CallbacksInferFromSettledOperands) {
  auto hook = std::make_shared<Batched>();
  auto module = with_partitioner(hook, {{"p", "x|y"}});
  expect(*module, {{"a", "x|y"}, {"c", "x|-"}, {"n", "x|-"}, {"t", "x|-"}});
  EXPECT_GE(hook->calls, 1);
}
TEST(Propagation, UsersDecideWhereNothingIsInferred) {
  auto hook = std::make_shared<Batched>();
  auto module = with_partitioner(hook, {{"t", "x|-"}});
  expect(*module, {{"c", "x|-"}, {"p", "-|-"}});
}
TEST(Propagation, CallbacksSeeWhatUsersWant) {
  auto hook = std::make_shared<Batched>();
  hook->infers = false;
  hook->suggests = true;
  auto module = with_partitioner(hook, {{"t", "x|y"}});
  expect(*module, {{"c", "x|-"}});
  EXPECT_GE(hook->suggestions, 1);
}
TEST(Propagation, AUsersRulePropagates) {
  auto hook = std::make_shared<Batched>();
  hook->infers = false;
  hook->spec = ir::FactorRuleSpec{{"i", "j"}, {16, 8}, {{{0}, {1}}}, {{{0}, {1}}}, {}, {}, {}};
  expect(*with_partitioner(hook, {{"p", "x|y"}}), {{"c", "x|y"}, {"t", "x|y"}});
  expect(*with_partitioner(hook, {{"t", "x|y"}}), {{"c", "x|y"}, {"p", "x|y"}});
}

TEST(Propagation, ManyInstructionsTakeLinearTime) {
  std::string body = "p0 = f32[16,16] parameter(0)\n";
  const int n = 3000;
  for (int i = 1; i <= n; ++i) {
    std::string from = "p" + std::to_string(i - 1);
    body += "p" + std::to_string(i) + " = f32[16,16] ";
    body += i % 3 == 0 ? "dot(" + from + ", " + from +
                             "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                       : "add(" + from + ", " + from + ")\n";
  }
  body += "ROOT r = f32[16,16] negate(p" + std::to_string(n) + ")";
  auto module = propagated(entry(body), {{"p0", "x|-"}});
  expect(*module, {{"r", "x|-"}});
}

}  // namespace
}  // namespace tessera::spmd
