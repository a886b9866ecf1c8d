// SPDX-License-Identifier: Apache-2.0
// Meshes: names, sizes, devices, equality.
#include <tessera/mesh.h>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "src/sharding/axes/logical_mesh.h"
#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;

TEST(Mesh, Behaviour_001_FromAListAndOneName) {
  const Mesh m(some_devices(4), "x");
  EXPECT_EQ(m.axis_names(), (std::vector<std::string>{"x"}));
  EXPECT_EQ(m.axis_sizes(), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(m.size(), 4);
  EXPECT_EQ(m.shape(), (Mesh::Shape{{"x", 4}}));
}

TEST(Mesh, Behaviour_002_EqualMeshesAreOneObjectFromManyThreads) {
  std::vector<std::size_t> hashes(16);
  std::vector<const void*> objects(16);
  std::vector<Mesh> meshes(16);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < hashes.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const Mesh m(some_devices(6), {2, 3}, {"a", "b" + std::to_string(i)});
        if (m.empty()) return;
      }
      meshes[t] = Mesh(some_devices(6), {2, 3}, {"a", "b"});
      hashes[t] = meshes[t].hash();
      objects[t] = &meshes[t].devices();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(std::set<std::size_t>(hashes.begin(), hashes.end()).size(), 1u);
  EXPECT_EQ(std::set<const void*>(objects.begin(), objects.end()).size(), 1u);
  EXPECT_TRUE(meshes[0] == meshes[9]);
  EXPECT_FALSE(meshes[0] == Mesh(some_devices(6), {3, 2}, {"a", "b"}));
  EXPECT_FALSE(meshes[0] == Mesh(some_devices(6), {2, 3}, {"b", "a"}));
}

TEST(Mesh, Behaviour_003_RankAndNumberOfNames) {
  const std::string m = message_of<ValueError>([] { Mesh(some_devices(6), {2, 3}, {"x"}); });
  expect_parts(m, {"mesh_test.cc:", "2 dimensions [2,3]", "1 names are given, ('x',)"});
  expect_parts(message_of<ValueError>([] {
                 Mesh(some_devices(5), {2, 3}, {"x", "y"});
               }),
               {"[2,3]", "need 6 devices and 5 are given", "('x', 'y')"});
  expect_parts(message_of<ValueError>([] {
                 auto d = some_devices(2);
                 d[1] = d[0];
                 Mesh(d, {2}, {"x"});
               }),
               {"device cpu:0 stands twice"});
}

TEST(Mesh, Behaviour_004_NamesMustBeThere) {
  expect_parts(message_of<ValueError>([] {
                 Mesh(some_devices(2), {2, 1}, {"x", ""});
               }),
               {"must not be empty", "('x', '')"});
  expect_parts(message_of<ValueError>([] {
                 Mesh(some_devices(2), {2, 1}, {"x", "x"});
               }),
               {"'x' stands twice", "('x', 'x')"});
}

TEST(Mesh, Behaviour_005_OneTypePerName) {
  expect_parts(message_of<ValueError>([] {
                 Mesh(some_devices(2), {2, 1}, {"x", "y"}, {AxisType::Auto});
               }),
               {"('x', 'y')", "(Auto,)"});
  expect_parts(message_of<ValueError>([] {
                 make_mesh({2, 1}, {"x", "y"}, {AxisType::Auto, AxisType::Manual, AxisType::Auto},
                           some_devices(2));
               }),
               {"('x', 'y')", "(Auto, Manual, Auto)"});
}

TEST(Mesh, Behaviour_007_OneTypeForOneAxis) {
  const Mesh m(some_devices(2), {2}, {"x"}, {AxisType::Explicit});
  EXPECT_EQ(m.axis_types(), (std::vector<AxisType>{AxisType::Explicit}));
}

TEST(Mesh, Behaviour_008_TypesCountInEquality) {
  const Mesh a(some_devices(4), {2, 2}, {"x", "y"}, {AxisType::Auto, AxisType::Manual});
  const Mesh b(some_devices(4), {2, 2}, {"x", "y"}, {AxisType::Auto, AxisType::Explicit});
  const Mesh c(some_devices(4), {2, 2}, {"x", "y"});
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_TRUE(c == Mesh(some_devices(4), {2, 2}, {"x", "y"}, {AxisType::Auto, AxisType::Auto}));
}

TEST(Mesh, Behaviour_009_AxesByType) {
  const Mesh m(some_devices(1), {1, 1, 1, 1}, {"a", "b", "c", "d"},
               {AxisType::Auto, AxisType::Manual, AxisType::Explicit, AxisType::Auto});
  EXPECT_EQ(m.auto_axes(), (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(m.manual_axes(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(m.explicit_axes(), (std::vector<std::string>{"c"}));
}

TEST(Mesh, Behaviour_010_Text) {
  EXPECT_EQ(Mesh(some_devices(8), {2, 2, 2}, {"x", "y", "z"}).to_string(),
            "Mesh('x': 2, 'y': 2, 'z': 2, axis_types=(Auto, Auto, Auto))");
  EXPECT_EQ(Mesh(some_devices(3), {3}, {"x"}, {AxisType::Manual}).to_string(),
            "Mesh('x': 3, axis_types=(Manual,))");
}

TEST(Mesh, Behaviour_011_TheEmptyMesh) {
  const Mesh m;
  EXPECT_TRUE(m.empty());
  EXPECT_EQ(m.size(), 0);
  EXPECT_TRUE(m.axis_names().empty());
  EXPECT_EQ(m.to_string(), "Mesh()");
  EXPECT_TRUE(m == Mesh({}, std::vector<std::int64_t>{}, {}));
}

TEST(Mesh, Behaviour_012_ScopesNest) {
  const Mesh a(some_devices(2), "a"), b(some_devices(4), "b");
  EXPECT_TRUE(current_mesh().empty());
  {
    MeshScope outer(a);
    EXPECT_TRUE(current_mesh() == a);
    {
      MeshScope inner(b);
      EXPECT_TRUE(current_mesh() == b);
      MeshScope same(b);
      EXPECT_TRUE(current_mesh() == b);
      std::thread([] { EXPECT_TRUE(current_mesh().empty()); }).join();
    }
    EXPECT_TRUE(current_mesh() == a);
  }
  EXPECT_TRUE(current_mesh().empty());
}

TEST(Mesh, Behaviour_019_SetMeshRefusesManualAxesAndClears) {
  const Mesh manual(some_devices(2), {2}, {"x"}, {AxisType::Manual});
  expect_parts(message_of<ValueError>([&] { set_mesh scope(manual); }),
               {"mesh_test.cc:", manual.to_string(), "('x',)", "shard_map"});
  EXPECT_TRUE(current_mesh().empty());
  set_mesh outer(Mesh(some_devices(2), "x"));
  set_mesh cleared((Mesh()));
  EXPECT_TRUE(current_mesh().empty());
}

TEST(Mesh, Behaviour_021_MakeMeshTakesTheFirstDevices) {
  const std::string m = message_of<ValueError>([] {
    make_mesh({3, 2}, {"x", "y"}, {}, some_devices(5));
  });
  expect_parts(m, {"mesh_test.cc:", "[3,2]", "('x', 'y')", "6 devices", "there are 5"});
  EXPECT_EQ(make_mesh({2, 2}, {"x", "y"}, {}, some_devices(5)).device_ids(),
            (std::vector<std::int64_t>{0, 1, 2, 3}));
  const std::int64_t all = device_count();
  expect_parts(
      message_of<ValueError>([&] {
        make_mesh({{"x", all + 1}});
      }),
      {std::to_string(all + 1), "there are " + std::to_string(all), "TESSERA_NUM_DEVICES"});
  EXPECT_EQ(make_mesh({{"x", all}}).size(), all);
}

TEST(Mesh, Behaviour_022_SizesMustBePositive) {
  expect_parts(message_of<ValueError>([] {
                 make_mesh({{"x", 2}, {"y", 0}});
               }),
               {"at least 1", "[2,0]"});
  expect_parts(message_of<ValueError>([] { Mesh({}, {0}, {"x"}); }), {"at least 1", "[0]"});
}

TEST(Mesh, Behaviour_023_AxesAreAutoByDefault) {
  EXPECT_EQ(make_mesh({2}, {"x"}, {}, some_devices(2)).auto_axes().size(), 1u);
  EXPECT_EQ(Mesh(some_devices(2), "x").auto_axes().size(), 1u);
}

TEST(Mesh, Behaviour_030_DevicesInRowMajorOrder) {
  const Mesh m(some_devices(8), {2, 4}, {"x", "y"});
  EXPECT_EQ(m.shape(), (Mesh::Shape{{"x", 2}, {"y", 4}}));
  EXPECT_EQ(m.device_ids(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(m.axis_size("y"), 4);
  EXPECT_TRUE(m.has_axis("x"));
  EXPECT_EQ(m.local_devices().size(), 8u);
  expect_parts(message_of<ValueError>([&] { m.axis_size("z"); }),
               {"mesh_test.cc:", "'z'", "'x': 2", "'y': 4"});
}

TEST(Mesh, NamesThatNoTextCanCarryAreRefused) {
  for (const char* bad : {"a \"b", "a\\b", "a\nb", "\x7f"}) {
    expect_parts(message_of<ShardingError>([&] { Mesh(some_devices(2), bad); }),
                 {"mesh_test.cc:", "name of a mesh axis", "quotes, backslashes or control"});
    EXPECT_THROW(make_logical_mesh({{bad, 2}}), ShardingError) << bad;
  }
  EXPECT_NO_THROW(Mesh(some_devices(2), "a {b} = \xc3\xa9, %"));
}

TEST(Mesh, SizesThatOverflowNameTheLine) {
  const std::int64_t huge = std::int64_t(1) << 32;
  expect_parts(message_of<ValueError>([&] {
                 make_mesh({{"x", huge}, {"y", huge}});
               }),
               {"mesh_test.cc:", "make_mesh", "4294967296", "64-bit"});
  expect_parts(message_of<ValueError>([&] {
                 Mesh(some_devices(2), {huge, huge}, {"x", "y"});
               }),
               {"mesh_test.cc:", "4294967296", "64-bit"});
}

TEST(Mesh, ScopesMayEndInAnyOrder) {
  const Mesh x(some_devices(2), "x"), y(some_devices(2), "y"), z(some_devices(2), "z");
  auto a = std::make_unique<MeshScope>(x);
  auto b = std::make_unique<MeshScope>(y);
  auto c = std::make_unique<MeshScope>(z);
  b.reset();
  EXPECT_EQ(current_mesh(), z);
  c.reset();
  EXPECT_EQ(current_mesh(), x);
  a.reset();
  EXPECT_TRUE(current_mesh().empty());
}

}  // namespace
}  // namespace tessera
