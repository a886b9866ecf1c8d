// SPDX-License-Identifier: Apache-2.0
// Meshes and shardings in sdy's form.
#include "src/ir/constraint.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

std::unique_ptr<ir::Module> read(const std::string& meshes, const std::string& rest,
                                 int devices = 8) {
  auto module =
      parse_stablehlo("module @m attributes {mhlo.num_partitions = " + std::to_string(devices) +
                          " : i32} {\n" + meshes + "\n" + rest + "\n}\n",
                      "t.mlir");
  ir::verify(*module);
  return module;
}

const std::string kMesh = "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>";

std::string argument_sharding(const std::string& sharding, const std::string& mesh = kMesh) {
  auto m = read(mesh, "func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<" +
                          sharding + ">}) -> tensor<8x16xf32> { return %a : tensor<8x16xf32> }");
  return m->entry()->parameter(0)->sharding.at(0).to_string();
}

TEST(Shardings, MeshesHaveAsManyDevicesAsHloTextCanSay) {
  const std::string function =
      "func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) "
      "-> tensor<8x16xf32> { return %a : tensor<8x16xf32> }";
  EXPECT_NO_THROW(read("sdy.mesh @mesh = <[\"x\"=2048, \"y\"=2048]>", function, 1 << 22));
  try {
    read("sdy.mesh @mesh = <[\"x\"=65536, \"y\"=255, \"z\"=255]>", function);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("too many devices; valid are at most 4194304"), std::string::npos) << what;
    EXPECT_NE(what.find("t.mlir"), std::string::npos) << what;
  }
}

TEST(Shardings, OfArguments) {
  EXPECT_EQ(argument_sharding("@mesh, [{\"x\"}, {\"y\"}]"),
            "#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>");
  EXPECT_EQ(argument_sharding("@mesh, [{\"y\", \"x\", ?}p1, {?}]"),
            "#sdy.sharding<@mesh, [{\"y\", \"x\", ?}p1, {?}]>");
  EXPECT_EQ(argument_sharding("@mesh, [{\"y\":(1)2}, {\"y\":(2)2}], replicated={\"x\"}"),
            "#sdy.sharding<@mesh, [{\"y\":(1)2}, {\"y\":(2)2}], replicated={\"x\"}>");
  EXPECT_EQ(argument_sharding("@mesh, [{\"x\"}, {}], unreduced={\"y\"}"),
            "#sdy.sharding<@mesh, [{\"x\"}, {}], unreduced={\"y\"}>");
  EXPECT_EQ(argument_sharding("mesh<[\"a\"=8]>, [{\"a\"}, {}]", ""),
            "#sdy.sharding<@mesh, [{\"a\"}, {}]>");
}

TEST(Shardings, MeshesWithAnOrderOfDevices) {
  auto m = read("sdy.mesh @mesh = <[\"x\"=2, \"y\"=2], device_ids=[0, 2, 1, 3]>",
                "func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                "[{\"x\"}]>}) -> tensor<8xf32> { return %a : tensor<8xf32> }",
                4);
  EXPECT_EQ(m->mesh->device_ids, (Dims{0, 2, 1, 3}));
  m = read("sdy.mesh @one = <[], device_ids=[3]>",
           "func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> "
           "tensor<8xf32> { return %a : tensor<8xf32> }",
           4);
  EXPECT_EQ(m->entry()->parameter(0)->sharding.at(0).kind, TensorSharding::Kind::maximal);
  EXPECT_EQ(m->entry()->parameter(0)->sharding.at(0).device, 3);
}

TEST(Shardings, OfResultsStandOnTheRoot) {
  auto m = read(kMesh,
                "func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = "
                "#sdy.sharding<@mesh, [{\"y\"}]>}, tensor<8xf32>) { return %a, %a : "
                "tensor<8xf32>, tensor<8xf32> }");
  const ir::Instruction* root = m->entry()->root();
  ASSERT_EQ(root->sharding.size(), 2u);
  EXPECT_EQ(root->sharding[0].to_spec_string(), "P(\"y\")");
  EXPECT_TRUE(root->sharding[1].fully_open());
  EXPECT_TRUE(m->entry()->parameter(0)->sharding.empty());
  // A lone result doesn't put its sharding on the argument that it is.
  m = read(kMesh,
           "func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) "
           "-> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\"}]>}) { return %a : "
           "tensor<8xf32> }");
  EXPECT_EQ(m->entry()->root()->shape.to_string(), "f32[8]");
  EXPECT_EQ(m->entry()->root()->sharding.at(0).to_spec_string(), "P(\"y\")");
  EXPECT_EQ(m->entry()->parameter(0)->sharding.at(0).to_spec_string(), "P(\"x\")");
}

TEST(Shardings, ConstraintsAndOperations) {
  auto m = read(kMesh, R"(func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {?}]> : tensor<8x4xf32>
    %1 = sdy.reshard %0 <@mesh, [{}, {"y"}]> : tensor<8x4xf32>
    %2:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>, <@mesh, [{}, {"x"}]>]>} %1, %0 : tensor<8x4xf32>, tensor<8x4xf32>
    %3 = stablehlo.add %2#0, %2#1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y", "x"}, {}]>]>} : tensor<8x4xf32>
    %4 = sdy.all_gather [{"x"}, {}] %3 out_sharding=<@mesh, [{"y"}, {}]> : tensor<8x4xf32>
    sdy.sharding_group %4 group_id=3 : tensor<8x4xf32>
    %5 = sdy.propagation_barrier %4 allowed_direction=NONE : tensor<8x4xf32>
    return %5 : tensor<8x4xf32>
  })");
  std::vector<std::string> found;
  for (const auto& i : m->entry()->instructions()) {
    if (!i->has_sharding()) continue;
    found.push_back(std::string(ir::name(i->opcode)) + " " + i->sharding[0].to_spec_string());
  }
  EXPECT_EQ(found,
            (std::vector<std::string>{
                "sharding-constraint P(\"x\", UNCONSTRAINED)", "sharding-constraint P(None, \"y\")",
                "get-tuple-element P(\"y\", None)", "get-tuple-element P(None, \"x\")",
                "add P((\"y\", \"x\"), None)", "sharding-constraint P(\"y\", None)"}));
  EXPECT_EQ(m->entry()->root()->operand(0)->sharding.at(0).shard_group, 3);
}

TEST(Shardings, AReshardIsWrittenAsOne) {
  auto m = read(kMesh, R"(func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %1 = sdy.reshard %0 <@mesh, [{}, {"y"}]> : tensor<8x4xf32>
    %2 = stablehlo.negate %1 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  })");
  std::vector<bool> reshards;
  for (const auto& i : m->entry()->instructions()) {
    if (ir::is_constraint(*i)) reshards.push_back(ir::is_reshard(*i));
  }
  EXPECT_EQ(reshards, (std::vector<bool>{false, true}));
  const std::string text = to_stablehlo(*m);
  EXPECT_NE(text.find("sdy.sharding_constraint %arg0 <@mesh, [{\"x\"}, {}]>"), std::string::npos)
      << text;
  EXPECT_NE(text.find("sdy.reshard %0 <@mesh, [{}, {\"y\"}]>"), std::string::npos) << text;
  ir::PrintOptions options;
  options.axis_names = true;
  EXPECT_EQ(to_stablehlo(*ir::parse_hlo(ir::to_string(*m, options))), text);
}

// The module's first mesh is written, also if no sharding names it: what is written is read again.
TEST(Shardings, AModuleThatSaysNoCountIsForItsLargestMesh) {
  const std::string text = R"(
    sdy.mesh @all = <["x"=2, "y"=4]>
    sdy.mesh @some = <["x"=4]>
    sdy.mesh @others = <["x"=4], device_ids=[1, 2, 3, 0]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@some, [{"x"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@others, [{"x"}]>}) {
      %0 = sdy.reshard %a <@others, [{"x"}]> : tensor<8xf32>
      return %0 : tensor<8xf32>
    })";
  const std::string written = to_stablehlo(*parse_stablehlo(text));
  EXPECT_NE(written.find("mhlo.num_partitions = 8 : i32"), std::string::npos) << written;
  EXPECT_EQ(to_stablehlo(*parse_stablehlo(written)), written);
}

TEST(Shardings, AMeshHasNoMoreDevicesThanTheModule) {
  const auto error_of = [](const std::string& mesh, int devices) -> std::string {
    try {
      read(mesh,
           "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }",
           devices);
    } catch (const ParseError& e) {
      return e.what();
    }
    return "";
  };
  const std::string error = error_of("sdy.mesh @grid = <[\"x\"=2, \"y\"=4]>", 4);
  for (const char* part :
       {"t.mlir:2: ", "mesh @grid = <[\"x\"=2, \"y\"=4]> has 8 devices", "mhlo.num_partitions is 4",
        "valid: a mesh of at most 4 devices", "or mhlo.num_partitions = 8"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  // Smaller ones are on the first devices.
  EXPECT_EQ(error_of("sdy.mesh @a = <[\"x\"=8]>\nsdy.mesh @b = <[\"x\"=2], device_ids=[1, 0]>", 8),
            "");
  EXPECT_NE(error_of("sdy.mesh @grid = <[\"x\"=16]>", 8), "");
  // One device is a place, and what isn't said is as the mesh has it.
  EXPECT_EQ(error_of(kMesh, 8), "");
  EXPECT_EQ(error_of(kMesh, 1), "");
  EXPECT_EQ(error_of("sdy.mesh @a = <[\"x\"=4, \"y\"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>", 8),
            "");
  EXPECT_EQ(error_of("sdy.mesh @maximal_mesh_3 = <[], device_ids=[3]>\n"
                     "sdy.mesh @empty_mesh = <[]>\nsdy.mesh @one = <[\"x\"=1]>",
                     8),
            "");
}

TEST(Shardings, TilesOfOlderModules) {
  auto m = read(
      "",
      R"(func.func @main(%a: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,4]<=[8]}"}) -> (tensor<8x16xf32> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  })");
  EXPECT_EQ(m->entry()->parameter(0)->sharding.at(0).shards(), (Dims{2, 4}));
  EXPECT_TRUE(m->entry()->root()->sharding.at(0).is_replicated());
}

TEST(Shardings, ManualComputations) {
  auto m = read(kMesh, R"(func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x16xf32>) {
      %1 = stablehlo.negate %b : tensor<4x16xf32>
      sdy.return %1 : tensor<4x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  })");
  const ir::Instruction* call = m->entry()->root();
  const auto& attrs = call->get<ir::ManualComputationAttrs>();
  ASSERT_EQ(attrs.in_shardings.size(), 1u);
  EXPECT_EQ(attrs.in_shardings[0].to_spec_string(), "P(\"x\", None)");
  EXPECT_EQ(attrs.mesh->axes.at(0).name, "x");
  EXPECT_EQ(attrs.manual_axes, IndexList{0});
  EXPECT_TRUE(attrs.other.empty());
  ASSERT_EQ(call->called().size(), 1u);
  EXPECT_EQ(call->called()[0]->root()->shape.to_string(), "f32[4,16]");
}

TEST(Shardings, CollectivesBetweenDevices) {
  auto m = read("", R"(func.func @main(%a: tensor<4x16xf32>) -> tensor<16x4xf32> {
    %0 = "stablehlo.all_to_all"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4x16xf32>) -> tensor<16x4xf32>
    return %0 : tensor<16x4xf32>
  })",
                4);
  // Device d holds rows of value d; it gets the d-th columns of all.
  std::vector<std::vector<Literal>> arguments;
  for (int d = 0; d < 4; ++d) {
    std::vector<int> values(64);
    for (int i = 0; i < 64; ++i) values[std::size_t(i)] = 100 * d + i % 16;
    arguments.push_back({make_literal<int>(f32, {4, 16}, values)});
  }
  std::vector<Literal> out = evaluator::evaluate_spmd(*m, arguments);
  auto got = to_vector<int>(out[2]);
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 4; ++c) {
      EXPECT_EQ(got[std::size_t(r * 4 + c)], 100 * (r / 4) + 8 + c);
    }
  }
}

TEST(Shardings, DonationAndAliases) {
  auto m = read(
      "",
      R"(func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<4xf32> {jax.buffer_donor = true, mhlo.memory_kind = "pinned_host"}) -> (tensor<4xf32>, tensor<4xf32>) {
    return %b, %a : tensor<4xf32>, tensor<4xf32>
  })",
      1);
  ASSERT_EQ(m->input_output_alias.size(), 1u);
  EXPECT_EQ(m->input_output_alias[0].output, (Dims{1}));
  EXPECT_EQ(m->input_output_alias[0].parameter, 0);
  ASSERT_EQ(m->buffer_donor.size(), 1u);
  EXPECT_EQ(m->buffer_donor[0].first, 1);
  EXPECT_EQ(m->entry()->parameter(1)->frontend_attributes->at("mhlo.memory_kind"), "pinned_host");
}

}  // namespace
}  // namespace tessera::text
