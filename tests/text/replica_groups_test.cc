// SPDX-License-Identifier: Apache-2.0
// Groups of devices that are written as axes of a mesh.
#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

std::string module_with(const std::string& before, const std::string& groups) {
  return "module attributes {mhlo.num_partitions = 8 : i32} {\n"
         "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n"
         "sdy.mesh @turned = <[\"x\"=4, \"y\"=2], device_ids=[1, 0, 3, 2, 5, 4, 7, 6]>\n" +
         before +
         "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
         "%0 = \"stablehlo.collective_broadcast\"(%x) <{replica_groups = " +
         groups +
         ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}> : "
         "(tensor<8xf32>) -> tensor<8xf32>\nreturn %0 : tensor<8xf32>\n}\n}\n";
}

std::string over(const std::string& mesh, const std::string& axes) {
  return "#stablehlo.replica_group_mesh_axes<mesh = " + mesh + ", axes = [" + axes + "]>";
}

std::string axis(const std::string& name, const std::string& sub = "") {
  return "#stablehlo.axis_ref<name = \"" + name + "\"" +
         (sub.empty() ? "" : ", sub_axis_info = " + sub) + ">";
}

Lists groups_of(const std::string& groups, const std::string& before = "") {
  const auto module = parse_stablehlo(module_with(before, groups), "t.mlir");
  for (const auto& i : module->entry()->instructions()) {
    if (i->is(ir::Opcode::collective_broadcast)) {
      return i->get<ir::CollectiveAttrs>().groups.expand(8);
    }
  }
  return {};
}

TEST(ReplicaGroups, AxesOfAMesh) {
  EXPECT_EQ(groups_of(over("@mesh", axis("x"))), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups_of(over("@mesh", axis("y"))), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  // Members in the order of the axes as they are listed.
  EXPECT_EQ(groups_of(over("@mesh", axis("y") + ", " + axis("x"))),
            (Lists{{0, 2, 4, 6, 1, 3, 5, 7}}));
  EXPECT_EQ(groups_of(over("@turned", axis("y"))), (Lists{{1, 0}, {3, 2}, {5, 4}, {7, 6}}));
  EXPECT_EQ(groups_of(over("@mesh", "")), (Lists{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
}

TEST(ReplicaGroups, SubAxes) {
  EXPECT_EQ(groups_of(over("@mesh", axis("x", "(1)2"))), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups_of(over("@mesh", axis("x", "(2)2"))), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups_of(over("@mesh", axis("x", "(2)2") + ", " + axis("y"))),
            (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups_of(over("@mesh", axis("x", "(2)2") + ", " + axis("x", "(1)2"))),
            (Lists{{0, 4, 2, 6}, {1, 5, 3, 7}}));
  EXPECT_EQ(groups_of(over("@turned", axis("x", "(1)2"))), (Lists{{1, 5}, {0, 4}, {3, 7}, {2, 6}}));
}

TEST(ReplicaGroups, MeshesInPlaceAndAliases) {
  const std::string mesh =
      "#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = \"a\", size = 2>, "
      "#stablehlo.mesh_axis<name = \"b\", size = 4>], device_ids = dense<[7, 6, 5, 4, 3, 2, 1, 0]> "
      ": tensor<8xi64>>";
  EXPECT_EQ(groups_of(over(mesh, axis("a"))), (Lists{{7, 3}, {6, 2}, {5, 1}, {4, 0}}));
  EXPECT_EQ(groups_of(over(mesh, axis("b", "(2)2"))), (Lists{{7, 6}, {5, 4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(groups_of("#groups", "#half = " + axis("x", "(1)2") +
                                     "\n#groups = " + over("@mesh", "#half") + "\n"),
            (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(ReplicaGroups, MistakesAreNamed) {
  const auto expect_error = [](const std::string& groups, const std::string& words) {
    try {
      parse_stablehlo(module_with("", groups), "t.mlir");
      FAIL() << groups << " is accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("t.mlir:5"), std::string::npos) << e.what();
    }
  };
  expect_error(over("@absent", axis("x")), "there is no mesh @absent");
  expect_error(over("@mesh", axis("z")), "'z'");
  expect_error(over("@mesh", "0 : i64"), "expected an axis");
  expect_error(over("@mesh", axis("x", "(1)3")), "'x':(1)3");
  expect_error(over("@mesh", axis("x", "(0)2")), "at least 1");
  expect_error(over("@mesh", axis("x") + ", " + axis("x")), "'x'");
}

// HLO's empty groups are one of all devices: StableHLO names them where sizes depend on how many.
TEST(ReplicaGroups, GroupsOfAllAreWrittenOut) {
  const auto reread = [](const std::string& header, const std::string& body) {
    const auto module =
        ir::parse_hlo("HloModule m" + header + "\nENTRY e {\n  x = f32[2,8]{1,0} parameter(0)\n" +
                      body + "\n}\n");
    const std::string text = to_stablehlo(*module);
    EXPECT_EQ(to_stablehlo(*parse_stablehlo(text)), text);
    return text;
  };
  const std::string four = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>";
  for (const std::string& text :
       {reread(", num_partitions=4",
               "  s = (f32[2,8]{1,0}, f32[8,8]{1,0}) all-gather-start(x), channel_id=1, "
               "replica_groups={}, dimensions={0}, use_global_device_ids=true\n"
               "  ROOT d = f32[8,8]{1,0} all-gather-done(s)"),
        reread("", "  ROOT g = f32[8,8]{1,0} all-gather(x), replica_groups={}, dimensions={0}")}) {
    EXPECT_NE(text.find(four), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera::text
