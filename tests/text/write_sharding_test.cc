// SPDX-License-Identifier: Apache-2.0
// Meshes, shardings, constraints, groups and manual computations in sdy's form.
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/rewrite/builder.h"
#include "src/sharding/axes/sdy_text.h"
#include "tests/text/write_cases.h"

namespace tessera::text {
namespace {

using testing::expect_has;
using testing::module_of;
using testing::written;

/// A module of one parameter, its negative and a result, each f32[16,8], with these shardings.
std::string sharded(const TensorSharding& parameter, const TensorSharding& op) {
  ir::Module module("t");
  ir::Computation* entry = module.add_computation("main");
  ir::Builder b(entry);
  ir::Instruction* p = b.parameter(0, Shape(f32, {16, 8}));
  p->sharding = {parameter};
  ir::Instruction* r = b.unary(ir::Opcode::negate, p);
  r->sharding = {op};
  entry->set_root(r);
  module.set_entry(entry);
  return to_stablehlo(module);
}

TEST(WriteSharding, AxesOpenDimsPrioritiesAndSets) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}, {"z", 2}});
  TensorSharding s = TensorSharding::replicated_on(mesh, 2);
  s.dims[0] = {{0}, true, 1};
  s.replicated = {1};
  s.unreduced = {2};
  const std::string text = sharded(s, TensorSharding::open_on(mesh, 2));
  expect_has(text, "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=4, \"z\"=2]>\n");
  expect_has(text,
             "sdy.sharding = #sdy.sharding<@mesh, [{\"x\", ?}p1, {}], replicated={\"y\"}, "
             "unreduced={\"z\"}>");
  expect_has(text,
             "stablehlo.negate %arg0 {sdy.sharding = "
             "#sdy.sharding_per_value<[<@mesh, [{?}, {?}]>]>} : tensor<16x8xf32>");
}

TEST(WriteSharding, NamesBeyondAsciiAreReadBack) {
  const MeshRef mesh =
      make_logical_mesh({{"gr\xc3\xb6\xc3\x9f"
                          "e",
                          2}});
  TensorSharding s = TensorSharding::replicated_on(mesh, 2);
  s.dims[0].axes = {0};
  const auto back = parse_stablehlo(sharded(s, s));
  EXPECT_EQ(back->mesh->axes[0].name, mesh->axes[0].name);
  EXPECT_EQ(back->entry()->parameter(0)->sharding.at(0).shards(), (Dims{2, 1}));
}

TEST(WriteSharding, SubAxesAreWrittenInTermsOfTheFullAxis) {
  const MeshRef mesh = make_logical_mesh({{"x", 8}, {"y", 2}});
  const MeshRef refined = refine(mesh, {{2, 2, 2}, {}});
  TensorSharding s = TensorSharding::replicated_on(refined, 2);
  s.dims[0].axes = {1, 2};
  s.dims[1].axes = {3, 0};
  TensorSharding t = TensorSharding::replicated_on(mesh, 2);
  t.dims[0].axes = {0};
  const std::string text = sharded(s, t);
  expect_has(text, "  sdy.mesh @mesh = <[\"x\"=8, \"y\"=2]>\n");
  EXPECT_EQ(text.find("sdy.mesh"), text.rfind("sdy.mesh"));
  expect_has(text, "#sdy.sharding<@mesh, [{\"x\":(2)4}, {\"y\", \"x\":(1)2}]>");
  expect_has(text, "<@mesh, [{\"x\"}, {}]>");
}

TEST(WriteSharding, MeshesOfOneNameAndDeviceOrder) {
  const MeshRef a = make_logical_mesh({{"x", 4}});
  const MeshRef b = make_logical_mesh({{"x", 4}}, {3, 1, 2, 0});
  const MeshRef iota = make_logical_mesh({{"x", 4}}, {0, 1, 2, 3}, "named");
  TensorSharding s = TensorSharding::replicated_on(a, 2);
  s.dims[0].axes = {0};
  TensorSharding t = TensorSharding::replicated_on(b, 2);
  t.dims[1].axes = {0};
  const std::string text = sharded(s, t);
  expect_has(text, "  sdy.mesh @mesh = <[\"x\"=4]>\n");
  expect_has(text, "  sdy.mesh @mesh_0 = <[\"x\"=4], device_ids=[3, 1, 2, 0]>\n");
  expect_has(text, "#sdy.sharding_per_value<[<@mesh_0, [{}, {\"x\"}]>]>");
  // sdy refuses ids that say nothing.
  expect_has(sharded(TensorSharding::replicated_on(iota, 2), s), "sdy.mesh @named = <[\"x\"=4]>\n");
}

TEST(WriteSharding, OneDeviceAndNoMesh) {
  const std::string text =
      sharded(TensorSharding::maximal_on(5), TensorSharding::replicated_on(nullptr, 2));
  expect_has(text, "  sdy.mesh @maximal_mesh_5 = <[], device_ids=[5]>\n");
  expect_has(text, "  sdy.mesh @empty_mesh = <[]>\n");
  expect_has(text, "#sdy.sharding<@maximal_mesh_5, []>");
  expect_has(text, "<@empty_mesh, [{}, {}]>");
}

TEST(WriteSharding, ManualAxesOutsideOfAManualComputationAreTilings) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  const std::string text =
      sharded(TensorSharding::replicated_on(mesh, 2), TensorSharding::manual_on(mesh, 2));
  expect_has(text, "stablehlo.negate %arg0 {mhlo.sharding = \"{manual}\"} : tensor<16x8xf32>");
}

TEST(WriteSharding, MarkersOfResultsStandWithTheResults) {
  const std::string text = written(
      "  x = f32[16,8] parameter(0)\n  n = f32[16,8] negate(x)\n"
      "  m = f32[16,8] custom-call(n), custom_call_target=\"xla.sdy.FuncResultSharding\", "
      "custom_call_has_side_effect=true, "
      "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding_per_value<[<@mesh, [{}, "
      "{\\\"y\\\", ?}]>]>\"}\n"
      "  echo = f32[16,8] reshape(m), sharding={devices=[1,4,2]<=[2,4]T(1,0) "
      "last_tile_dim_replicate}\n"
      "  ROOT t = (f32[16,8]) tuple(m), sharding={{devices=[1,4,2]<=[2,4]T(1,0) "
      "last_tile_dim_replicate}}",
      "",
      "HloModule t, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>}}");
  expect_has(text,
             "-> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"y\", ?}]>}) {\n"
             "    %0 = stablehlo.negate %arg0 : tensor<16x8xf32>\n"
             "    return %0 : tensor<16x8xf32>\n");
}

TEST(WriteSharding, RulesThatCannotBeReadStayText) {
  const auto call = [](const std::string& rule) {
    const std::string text = written(
        "  x = f32[16,8] parameter(0)\n"
        "  ROOT r = f32[16,8] custom-call(x), custom_call_target=\"mine\", "
        "frontend_attributes={xla.sdy.sharding_rule=\"" +
        rule + "\"}");
    parse_stablehlo(text);
    return text;
  };
  const std::string good = "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}, custom>";
  expect_has(call(good), "sdy.sharding_rule = " + good);
  const std::string blocked =
      "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8} permutation={j} "
      "blocked_propagation={i, j}, custom>";
  expect_has(call(blocked), "sdy.sharding_rule = " + blocked);
  EXPECT_EQ(ir::parse_sharding_rule(blocked).to_string(), blocked);
  for (const char* bad : {"#sdy.op_sharding_rule<([i, j])f32>([i, j]) {i=16, j=8}, custom>",
                          "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=16, j=8}, custom> }",
                          "([i, j])->([i, j]) {i=16, j=8}", ""}) {
    expect_has(call(bad), "xla.sdy.sharding_rule = \"" + std::string(bad) + "\"");
  }
}

TEST(WriteSharding, ResultsOfCalledFunctionsAreConstrainedOnce) {
  const std::string text =
      "sdy.mesh @mesh = <[\"a\"=2]>\n"
      "func.func private @foo(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"a\"}]>}) "
      "-> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"a\"}]>}) {\n"
      "return %x : tensor<8xf32>\n}\n"
      "func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {\n"
      "%0 = call @foo(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "%1 = call @foo(%0) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "return %0, %1 : tensor<8xf32>, tensor<8xf32>\n}\n";
  std::string last = to_stablehlo(*parse_stablehlo(text));
  for (int n = 0; n < 3; ++n) {
    const std::string next = to_stablehlo(*parse_stablehlo(last));
    if (n > 0) {
      EXPECT_EQ(next, last) << n;
    }
    last = next;
  }
}

TEST(WriteSharding, ManualComputation) {
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}}, {}, "grid");
  ir::Module module("t");
  module.mesh = mesh;
  module.num_partitions = 8;
  ir::Computation* body = module.add_computation("body");
  ir::Builder inside(body);
  body->set_root(inside.unary(ir::Opcode::sine, inside.parameter(0, Shape(f32, {8, 8}))));
  ir::Computation* entry = module.add_computation("main");
  ir::Builder b(entry);
  ir::ManualComputationAttrs attrs;
  attrs.in_shardings = {parse_sdy_sharding("<@any, [{\"x\"}, {?}]>", mesh)};
  // The same mesh by another name.
  attrs.out_shardings = {
      parse_sdy_sharding("<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\"}, {}]>", MeshTable{})};
  attrs.mesh = mesh;
  attrs.manual_axes = {0};
  entry->set_root(b.emit_shaped(ir::Opcode::manual_computation, Shape(f32, {16, 8}),
                                {b.parameter(0, Shape(f32, {16, 8}))}, attrs, {body}));
  module.set_entry(entry);
  const std::string text = to_stablehlo(module);
  expect_has(text, "  sdy.mesh @grid = <[\"x\"=2, \"y\"=4]>\n");
  EXPECT_EQ(text.find("sdy.mesh"), text.rfind("sdy.mesh"));
  expect_has(text,
             "    %0 = sdy.manual_computation(%arg0) in_shardings=[<@grid, [{\"x\"}, {?}]>] "
             "out_shardings=[<@grid, [{\"x\"}, {}]>] manual_axes={\"x\"} "
             "(%arg1: tensor<8x8xf32>) {\n"
             "      %1 = stablehlo.sine %arg1 : tensor<8x8xf32>\n"
             "      sdy.return %1 : tensor<8x8xf32>\n"
             "    } : (tensor<16x8xf32>) -> tensor<16x8xf32>\n");
  const std::string again = to_stablehlo(*parse_stablehlo(text));
  expect_has(again, "sdy.manual_computation(");
  EXPECT_EQ(to_stablehlo(*parse_stablehlo(again)), again);
}

TEST(WriteSharding, ReadBackShardingsAreTheSame) {
  const auto module = module_of(
      "HloModule t, num_partitions=8\nENTRY e {\n"
      "  p = f32[16,8] parameter(0), sharding={devices=[2,4]<=[8]}\n"
      "  q = f32[16,8] parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
      "last_tile_dim_replicate}\n"
      "  a = f32[16,8] add(p, q), sharding={devices=[8,1]<=[8]}\n"
      "  c = f32[16,8] custom-call(a), custom_call_target=\"Sharding\", "
      "sharding={devices=[1,8]<=[8]}\n"
      "  ROOT t = (f32[16,8]) tuple(c), sharding={{replicated}}\n}\n");
  const auto back = parse_stablehlo(to_stablehlo(*module));
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_TRUE(back->entry()->parameter(n)->sharding.at(0).same_placement(
        module->entry()->parameter(n)->sharding.at(0)));
  }
  bool constrained = false, added = false;
  for (const auto& i : back->entry()->instructions()) {
    if (i->is(ir::Opcode::add)) {
      added = true;
      EXPECT_EQ(i->sharding.at(0).shards(), (Dims{8, 1}));
    } else if (i->is(ir::Opcode::sharding_constraint)) {
      constrained = true;
      EXPECT_EQ(i->sharding.at(0).shards(), (Dims{1, 8}));
    }
  }
  EXPECT_TRUE(constrained && added);
}

// A function may join parts in another way than those that it is given; no operation of sdy may.
TEST(WriteSharding, ResultsOfAnotherKindOfPartsAreJoinedInBetween) {
  const std::string text = R"(sdy.mesh @mesh = <["x"=4]>
func.func private @f(%x: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, [], unreduced={"x":(1)2}>}) -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, [], unreduced=max{"x"}>}) {
  return %x : tensor<f32>
}
func.func public @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
)";
  const std::string once = to_stablehlo(*parse_stablehlo(text));
  expect_has(once, "= sdy.reshard %arg0 <@mesh, []> : tensor<f32>");
  expect_has(once, "<@mesh, [], unreduced=max{\"x\"}> : tensor<f32>");
  EXPECT_NO_THROW(parse_stablehlo(once));
}

}  // namespace
}  // namespace tessera::text
