// SPDX-License-Identifier: Apache-2.0
// Shardings in HLO text: all forms, the common mesh, and names that win over tilings.
#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

struct TilingForm {
  const char* text;
  const char* printed;
};

TEST(HloSharding, Forms) {
  const TilingForm forms[] = {
      {"{replicated}", "{replicated}"},
      {"{maximal device=3}", "{maximal device=3}"},
      {"{unknown}", "{unknown}"},
      {"{devices=[2,2]0,1,2,3}", "{devices=[2,2]<=[4]}"},
      {"{devices=[2,2]0,2,1,3}", "{devices=[2,2]<=[2,2]T(1,0)}"},
      {"{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
       "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}", nullptr},
      {"{replicated metadata={op_name=\"a\"}}", "{replicated}"},
      {"{devices=[2,1]0,1 metadata={{op_name=\"a\"}, {op_type=\"b\"}}}", "{devices=[2,1]<=[2]}"},
      {"{devices=[2,1]0,1 shard_like 3}", "{devices=[2,1]<=[2] shard_like 3}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}]}",
       "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"},
  };
  for (const TilingForm& form : forms) {
    SCOPED_TRACE(form.text);
    auto m = parse_body("ROOT p = f32[8,4] parameter(0), sharding=" + std::string(form.text));
    ASSERT_EQ(m->entry()->root()->sharding.size(), 1u);
    std::string line = last_line(*m);
    if (form.printed != nullptr) {
      EXPECT_EQ(line, "p = f32[8,4]{1,0} parameter(0), sharding=" + std::string(form.printed));
    }
    auto again = parse_hlo(to_string(*m));
    EXPECT_EQ(last_line(*again), line);
  }
}

TEST(HloSharding, Tuples) {
  auto m = parse_body(
      "ROOT p = (f32[8], (s32[], f32[4,2])) parameter(0), "
      "sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}, {replicated}, "
      "{devices=[4,2]<=[8]}}");
  ASSERT_EQ(m->entry()->root()->sharding.size(), 3u);
  EXPECT_EQ(m->entry()->root()->sharding[2].shards(), (Dims{4, 2}));

  auto each = parse_body("ROOT p = (f32[8], s32[8]) parameter(0), sharding={devices=[2]0,1}");
  EXPECT_EQ(last_line(*each),
            "p = (f32[8]{0}, s32[8]{0}) parameter(0), sharding={{devices=[2]<=[2]}, "
            "{devices=[2]<=[2]}}");
  auto empty = parse_body("ROOT p = () parameter(0), sharding={{replicated}}");
  EXPECT_FALSE(empty->entry()->root()->has_sharding());
}

TEST(HloSharding, AllOfAModuleAreOnOneMesh) {
  auto m = parse_hlo(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,8] parameter(0), sharding={devices=[2,4]<=[8]}
  b = f32[8,8] parameter(1), sharding={devices=[4,2]<=[2,4]T(1,0)}
  c = f32[8,8] parameter(2), sharding={devices=[8,1]<=[8]}
  ROOT r = f32[8,8] add(a, b), sharding={devices=[2,2,2]<=[8] last_tile_dim_replicate}
})");
  ASSERT_NE(m->mesh, nullptr);
  for (const auto& i : m->entry()->instructions()) {
    ASSERT_EQ(i->sharding.size(), 1u);
    EXPECT_EQ(i->sharding[0].mesh, m->mesh) << i->name;
  }
  EXPECT_EQ(m->mesh->num_devices(), 8);
  EXPECT_EQ(m->entry()->parameter(1)->sharding[0].shards(), (Dims{4, 2}));
}

const char* kNamed =
    R"(HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}

ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[8,1]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {\"y\", ?}]>"}
  b = f32[8,16] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  t = (f32[8,16], f32[8,16]) tuple(a, b), frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"y\"}, {}]>, <@mesh, [{}, {\"x\"}]>]>",k="v"}
  ROOT r = f32[8,16] get-tuple-element(t), index=0
})";

TEST(HloSharding, AxisNamesWin) {
  auto m = parse_hlo(kNamed);
  EXPECT_EQ(m->num_partitions, 1);  // as the header says
  ASSERT_NE(m->mesh, nullptr);
  EXPECT_EQ(m->mesh->axes[0].name, "x");
  EXPECT_TRUE(m->frontend_attributes.empty());
  const Instruction& a = *m->entry()->parameter(0);
  EXPECT_EQ(a.sharding[0].shards(), (Dims{2, 4}));
  EXPECT_TRUE(a.sharding[0].dims[1].open);
  EXPECT_FALSE(a.sharding[0].dims[0].open);
  EXPECT_TRUE(a.frontend_attributes->empty());
  // The tiling without names is read with the axes of the mesh.
  const Instruction& b = *m->entry()->parameter(1);
  EXPECT_EQ(b.sharding[0].dims[1].axes, (std::vector<int>{1}));
  EXPECT_EQ(b.sharding[0].mesh, a.sharding[0].mesh);
  const Instruction& t = *m->entry()->instructions()[2];
  ASSERT_EQ(t.sharding.size(), 2u);
  EXPECT_EQ(t.sharding[0].shards(), (Dims{4, 1}));
  EXPECT_EQ(t.frontend_attributes->at("k"), "v");
}

TEST(HloSharding, ElementsOfATupleMayCarryItsWholeList) {
  std::string text = kNamed;
  const std::string element = "get-tuple-element(t), index=1";
  text.replace(text.find("get-tuple-element(t), index=0"), element.size(),
               element +
                   ", frontend_attributes={xla.sdy.sharding=\"#sdy.sharding_per_value<"
                   "[<@mesh, [{\\\"y\\\"}, {}]>, <@mesh, [{}, {\\\"x\\\"}]>]>\"}");
  const auto m = parse_hlo(text);
  ASSERT_EQ(m->entry()->root()->sharding.size(), 1u);
  EXPECT_EQ(m->entry()->root()->sharding[0].shards(), (Dims{1, 2}));
}

TEST(HloSharding, AxisNamesArePrintedOnRequest) {
  auto m = parse_hlo(kNamed);
  EXPECT_EQ(to_string(*m).find("sdy"), std::string::npos);
  PrintOptions options;
  options.axis_names = true;
  std::string text = to_string(*m, options);
  EXPECT_NE(text.find(R"(xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>}")"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(sharding={devices=[2,4]<=[8]}, frontend_attributes={xla.sdy.sharding=)"
                      R"("#sdy.sharding<@mesh, [{\"x\"}, {\"y\", ?}]>"})"),
            std::string::npos)
      << text;
  auto again = parse_hlo(text);
  EXPECT_EQ(again->entry()->parameter(0)->sharding, m->entry()->parameter(0)->sharding);
}

TEST(HloSharding, TuplesNameSingleDevicesAndMeshesOfFewerDevices) {
  const auto m = parse_hlo(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>, part = #sdy.mesh<["y"=4]>}}

ENTRY e {
  a = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"}
  ROOT t = (f32[8], f32[8], f32[8]) tuple(a, a, a), frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@maximal_mesh_3, []>, <@part, [{\"y\"}]>, <@empty_mesh, [{?}]>]>"}
})");
  PrintOptions options;
  options.axis_names = true;
  const std::string text = to_string(*m, options);
  const auto again = parse_hlo(text);
  const auto &met = again->entry()->root()->sharding, &given = m->entry()->root()->sharding;
  ASSERT_EQ(met.size(), 3u) << text;
  EXPECT_EQ(met[0].kind, TensorSharding::Kind::maximal);
  EXPECT_EQ(met[0].device, 3);
  EXPECT_EQ(met[1], given[1]);
  EXPECT_EQ(met[1].mesh->num_devices(), 4);
  EXPECT_TRUE(met[2].fully_open());
}

TEST(HloSharding, TilingsOfFewerDevices) {
  const auto m = parse_hlo(R"(HloModule m, num_partitions=80
ENTRY e {
  a = f32[16] parameter(0), sharding={devices=[8]<=[8]}
  b = f32[16] copy(a), sharding={devices=[16]<=[16]}
  ROOT c = f32[16] copy(b), sharding={replicated}
})");
  EXPECT_EQ(m->entry()->parameter(0)->sharding[0].mesh->num_devices(), 8);
  EXPECT_EQ(m->entry()->parameter(0)->sharding[0].shards(), Dims{8});
  EXPECT_EQ(m->entry()->root()->operand(0)->sharding[0].shards(), Dims{16});
  EXPECT_EQ(to_string(*parse_hlo(to_string(*m))), to_string(*m));
}

TEST(HloSharding, SubAxesRefineTheModulesMesh) {
  auto m =
      parse_hlo(R"(HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}
ENTRY e {
  a = f32[8,16] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\":(1)2}, {\"x\":(2)4}]>"}
  ROOT b = f32[8,16] copy(a), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\":(4)2}, {}]>"}
})");
  ASSERT_NE(m->mesh, nullptr);
  EXPECT_EQ(m->mesh->axes.size(), 3u);
  EXPECT_EQ(m->entry()->parameter(0)->sharding[0].mesh, m->entry()->root()->sharding[0].mesh);
  EXPECT_EQ(m->entry()->root()->sharding[0].dims[0].axes, (std::vector<int>{2}));
  PrintOptions options;
  options.axis_names = true;
  auto again = parse_hlo(to_string(*m, options));
  EXPECT_EQ(again->entry()->root()->sharding, m->entry()->root()->sharding);
}

TEST(HloSharding, MeshesWithDeviceIds) {
  auto m = parse_hlo(R"(HloModule m, num_partitions=4
ENTRY e {
  ROOT a = f32[8,16] parameter(0), sharding={devices=[4,1]3,1,0,2}
})");
  EXPECT_EQ(last_line(*m), "a = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]3,1,0,2}");
  PrintOptions options;
  options.axis_names = true;
  auto again = parse_hlo(to_string(*m, options));
  EXPECT_EQ(last_line(*again), last_line(*m));
}

}  // namespace
}  // namespace tessera::ir::testing
