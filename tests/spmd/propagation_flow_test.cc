// SPDX-License-Identifier: Apache-2.0
// Propagation through tuples, loops, branches and calls, over meshes, and by callbacks.
#include "src/ir/hooks.h"
#include "tests/spmd/propagation_case.h"

namespace tessera::spmd {
namespace {

// --- data flow

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

// Shardy's order: what t asks of m reaches s before e is looked at, though e uses s and m does not.
TEST(Propagation, ChangesReachTheirNeighboursBeforeLaterInstructions) {
  const std::string text = entry(R"(
  p = f32[16,16] parameter(0)
  s = f32[16,16] sine(p)
  m = f32[16,16] negate(s)
  t = f32[16,16] tanh(m)
  e = f32[16,16] exponential(s)
  c = f32[16,16] cosine(m)
  ROOT r = (f32[16,16], f32[16,16], f32[16,16]) tuple(t, e, c))");
  check(text, {{"t", "-|x"}, {"e", "x|-"}}, {{"s", "-|x"}, {"m", "-|x"}, {"c", "-|x"}});
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
TEST(Propagation, ALoopsCarryHasOneShardingEvenIfOperandAndResultDiffer) {
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
  for (const ir::Computation* branch : b->called()) {
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
TEST(Propagation, ADonatedArgumentIsShardedAsItsResult) {
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
TEST(Propagation, AnotherDeviceOrderIsExpressedOnTheCommonMesh) {
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
    operand_spec = args.at(0).sharding->to_spec_string();
    EXPECT_FALSE(results.at(0).sharding.has_value());
    EXPECT_EQ(args.at(0).sharding->mesh, mesh);
    TensorSharding s = *args.at(0).sharding;
    s.dims.back().axes.clear();
    return {s};
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>& results) override {
    ++suggestions;
    user_spec = results.at(0).sharding->to_spec_string();
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
  std::string operand_spec, user_spec;  ///< as the callbacks saw them last
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
  find(*module, "c")->edit<ir::CustomPartitioningAttrs>().partitioner = std::move(hook);
  for (const auto& [name, s] : given) find(*module, name)->sharding = {parse(mesh, s)};
  propagate(module.get());
  return module;
}

TEST(Propagation, CallbacksInferFromSettledOperands) {
  auto hook = std::make_shared<Batched>();
  auto module = with_partitioner(hook, {{"p", "x|y"}});
  expect(*module, {{"a", "x|y"}, {"c", "x|-"}, {"n", "x|-"}, {"t", "x|-"}});
  // Not again at later levels, as the operand's sharding stays the same.
  EXPECT_EQ(hook->calls, 1);
  EXPECT_EQ(hook->operand_spec, R"(P("x", "y"))");
}
TEST(Propagation, UsersDecideIfNothingIsInferred) {
  auto hook = std::make_shared<Batched>();
  auto module = with_partitioner(hook, {{"t", "x|-"}});
  expect(*module, {{"c", "x|-"}, {"p", "-|-"}});
}
TEST(Propagation, CallbacksSeeTheShardingsThatUsersSuggest) {
  auto hook = std::make_shared<Batched>();
  hook->infers = false;
  hook->suggests = true;
  auto module = with_partitioner(hook, {{"t", "x|y"}});
  expect(*module, {{"c", "x|-"}});
  EXPECT_EQ(hook->suggestions, 1);
  EXPECT_EQ(hook->user_spec, R"(P("x", "y"))");
}
TEST(Propagation, AUsersRulePropagates) {
  auto hook = std::make_shared<Batched>();
  hook->infers = false;
  hook->spec = ir::FactorRuleSpec{{"i", "j"}, {16, 8}, {{{0}, {1}}}, {{{0}, {1}}}, {}, {}, {}};
  expect(*with_partitioner(hook, {{"p", "x|y"}}), {{"c", "x|y"}, {"t", "x|y"}});
  expect(*with_partitioner(hook, {{"t", "x|y"}}), {{"c", "x|y"}, {"p", "x|y"}});
  // Neither way along a factor that blocks.
  hook->spec->blocked = {0};
  expect(*with_partitioner(hook, {{"p", "x|y"}}), {{"c", "-|y"}, {"t", "-|y"}});
  expect(*with_partitioner(hook, {{"t", "x|y"}}), {{"p", "-|y"}});
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
