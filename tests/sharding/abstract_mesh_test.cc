// SPDX-License-Identifier: Apache-2.0
// Meshes without devices.
#include <tessera/sharding/abstract_mesh.h>

#include <gtest/gtest.h>

#include <set>

#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;
using Sizes = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

TEST(AbstractMesh, HasAxesAndNoDevices) {
  const AbstractMesh pod({{"data", 64}, {"model", 32}});
  EXPECT_EQ(pod.axis_names(), (Names{"data", "model"}));
  EXPECT_EQ(pod.axis_sizes(), (Sizes{64, 32}));
  EXPECT_EQ(pod.shape(), (Mesh::Shape{{"data", 64}, {"model", 32}}));
  EXPECT_EQ(pod.size(), 2048);
  EXPECT_FALSE(pod.empty());
  EXPECT_TRUE(pod.is_abstract());
  EXPECT_EQ(pod.axis_size("model"), 32);
  EXPECT_TRUE(pod.has_axis("data"));
  EXPECT_EQ(pod.to_string(), "AbstractMesh('data': 64, 'model': 32, axis_types=(Auto, Auto))");
  EXPECT_EQ(pod.auto_axes(), (Names{"data", "model"}));
}

TEST(AbstractMesh, ItsForms) {
  const AbstractMesh a({{"x", 2}, {"y", 4}});
  EXPECT_TRUE(a == AbstractMesh({2, 4}, {"x", "y"}));
  EXPECT_TRUE(a == AbstractMesh(Mesh::Shape{{"x", 2}, {"y", 4}}));
  EXPECT_TRUE(a == AbstractMesh({2, 4}, {"x", "y"}, {AxisType::Auto, AxisType::Auto}));
  EXPECT_EQ(a.hash(), AbstractMesh({2, 4}, {"x", "y"}).hash());
  EXPECT_FALSE(a == AbstractMesh({4, 2}, {"x", "y"}));
  EXPECT_FALSE(a == AbstractMesh({2, 4}, {"x", "z"}));
  EXPECT_FALSE(a == AbstractMesh({2, 4}, {"x", "y"}, {AxisType::Auto, AxisType::Manual}));
  const AbstractMesh one({{"x", 8}});
  EXPECT_EQ(one.size(), 8);
  // Larger than anything that could be compiled for.
  const AbstractMesh large({{"x", std::int64_t(1) << 22}});
  EXPECT_EQ(NamedSharding(large, P("x")).shard_shape({std::int64_t(1) << 23}), (Sizes{2}));
  const AbstractMesh huge({{"x", std::int64_t(1) << 40}});
  EXPECT_EQ(NamedSharding(huge, P("x")).num_devices(), std::int64_t(1) << 40);
  expect_parts(
      message_of<ShardingError>([&] { (void)NamedSharding(huge, P("x")).shard_shape({2}); }),
      {"abstract_mesh_test.cc:", "too many devices", "4194304"});
}

TEST(AbstractMesh, OfAMesh) {
  const Mesh mesh(some_devices(8), {2, 4}, {"x", "y"}, {AxisType::Auto, AxisType::Manual});
  EXPECT_FALSE(mesh.is_abstract());
  const AbstractMesh axes = mesh.abstract_mesh();
  EXPECT_TRUE(axes == AbstractMesh({2, 4}, {"x", "y"}, {AxisType::Auto, AxisType::Manual}));
  EXPECT_TRUE(axes.abstract_mesh() == axes);
  // Other devices, same axes.
  std::vector<Device> others = some_devices(16);
  others.erase(others.begin(), others.begin() + 8);
  EXPECT_TRUE(Mesh(others, {2, 4}, {"x", "y"}, mesh.axis_types()).abstract_mesh() == axes);
  // Devices count in equality.
  EXPECT_FALSE(static_cast<const Mesh&>(axes) == mesh);
}

TEST(AbstractMesh, Behaviour_011_TheEmptyOne) {
  const AbstractMesh none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.to_string(), "AbstractMesh()");
  EXPECT_TRUE(none == AbstractMesh(Sizes{}, Names{}));
  EXPECT_TRUE(Mesh().abstract_mesh() == none);
}

TEST(AbstractMesh, Updates) {
  const AbstractMesh a({{"x", 2}, {"y", 4}});
  EXPECT_TRUE(a.update({.axis_sizes = {8, 16}}) == AbstractMesh({8, 16}, {"x", "y"}));
  EXPECT_TRUE(a.update({.axis_names = {"p", "q"}}) == AbstractMesh({2, 4}, {"p", "q"}));
  EXPECT_TRUE(a.update({}) == a);
  const AbstractMesh manual = a.update_axis_types({{"y", AxisType::Manual}});
  EXPECT_TRUE(manual == AbstractMesh({2, 4}, {"x", "y"}, {AxisType::Auto, AxisType::Manual}));
  EXPECT_EQ(manual.manual_axes(), (Names{"y"}));
  expect_parts(message_of<ValueError>([&] {
                 a.update_axis_types({{"z", AxisType::Manual}});
               }),
               {"abstract_mesh_test.cc:", "axis 'z'", a.to_string()});
  expect_parts(message_of<ValueError>([&] { a.update({.axis_sizes = {2}}); }),
               {"abstract_mesh_test.cc:", "1 sizes [2]", "2 names ('x', 'y')"});
}

TEST(AbstractMesh, WrongAxes) {
  const auto place = "abstract_mesh_test.cc:";
  expect_parts(message_of<ValueError>([] {
                 AbstractMesh({2, 4}, {"x"});
               }),
               {place, "AbstractMesh needs one name per axis", "2 sizes [2,4]", "1 names ('x')"});
  expect_parts(message_of<ValueError>([] {
                 AbstractMesh({2, 4}, {"x", "x"});
               }),
               {place, "'x' stands twice"});
  expect_parts(message_of<ValueError>([] {
                 AbstractMesh({2, 4}, {"x", ""});
               }),
               {place, "must not be empty"});
  expect_parts(message_of<ValueError>([] {
                 AbstractMesh({2, 0}, {"x", "y"});
               }),
               {place, "at least 1", "[2,0]"});
  const std::int64_t large = std::int64_t(1) << 40;
  expect_parts(message_of<ValueError>([&] {
                 AbstractMesh({large, large}, {"x", "y"});
               }),
               {place, "more devices than a 64-bit count holds"});
}

TEST(AbstractMesh, Behaviour_005_OneTypePerName) {
  expect_parts(
      message_of<ValueError>([] {
        AbstractMesh({2, 4}, {"x", "y"}, {AxisType::Auto});
      }),
      {"abstract_mesh_test.cc:", "AbstractMesh needs one axis type per name", "('x', 'y')"});
}

TEST(AbstractMesh, Behaviour_018_DevicesAreAnErrorThatNamesTheProperty) {
  const AbstractMesh a({{"x", 2}, {"y", 4}});
  const auto refused = [&](const std::string& m, const char* property) {
    expect_parts(m, {"abstract_mesh_test.cc:", a.to_string() + " does not implement " + property,
                     "no devices behind it"});
  };
  refused(message_of<ValueError>([&] { (void)a.devices(); }), "devices");
  refused(message_of<ValueError>([&] { (void)a.device_ids(); }), "device_ids");
  refused(message_of<ValueError>([&] { (void)a.local_devices(); }), "local_devices");
  refused(message_of<ValueError>([&] { MeshScope scope(a); }), "being the current mesh");
  EXPECT_TRUE(current_mesh().empty());
}

TEST(AbstractMesh, Behaviour_016_AScopeOfAnotherSize) {
  const Mesh mesh(some_devices(8), {2, 4}, {"x", "y"});
  const AbstractMesh other({{"x", 2}, {"y", 2}});
  MeshScope scope(mesh);
  expect_parts(message_of<ValueError>([&] { use_abstract_mesh inner(other); }),
               {"abstract_mesh_test.cc:", "can't change the size", other.to_string(), "size 4",
                mesh.to_string(), "size 8"});
  EXPECT_TRUE(current_mesh() == mesh);
}

TEST(AbstractMesh, Behaviour_017_AScopeOfOtherNames) {
  const Mesh mesh(some_devices(8), {2, 4}, {"x", "y"});
  EXPECT_TRUE(get_abstract_mesh() == AbstractMesh());
  MeshScope scope(mesh);
  EXPECT_TRUE(get_abstract_mesh() == mesh.abstract_mesh());
  {
    use_abstract_mesh inner(AbstractMesh({{"p", 8}}));
    EXPECT_EQ(current_mesh().axis_names(), Names{"p"});
    EXPECT_EQ(current_mesh().device_ids(), mesh.device_ids());
    EXPECT_TRUE(get_abstract_mesh() == AbstractMesh({{"p", 8}}));
  }
  EXPECT_TRUE(current_mesh() == mesh);
}

TEST(AbstractMesh, AScopeWithoutDevices) {
  const AbstractMesh pod({{"data", 64}, {"model", 32}});
  use_abstract_mesh scope(pod);
  EXPECT_TRUE(current_mesh() == pod);
  EXPECT_TRUE(current_mesh().is_abstract());
}

TEST(AbstractMesh, ShardingsOnIt) {
  const AbstractMesh pod({{"data", 64}, {"model", 32}});
  const NamedSharding s(pod, P("data", axes("model")));
  EXPECT_EQ(s.shard_shape({128, 64}), (Sizes{2, 2}));
  EXPECT_EQ(s.num_devices(), 2048);
  EXPECT_TRUE(s.is_abstract());
  EXPECT_EQ(s.to_hlo_text(2), "{devices=[64,32]<=[2048]}");
  EXPECT_EQ(NamedSharding(pod, P(nullptr, "data")).to_hlo_text(2),
            "{devices=[1,64,32]<=[2048] last_tile_dim_replicate}");
  EXPECT_FALSE(s.is_fully_replicated());
  EXPECT_TRUE(NamedSharding(pod, P()).is_fully_replicated());
  EXPECT_TRUE(s.mesh() == pod);
  EXPECT_TRUE(s.mesh().abstract_mesh() == pod);
  EXPECT_EQ(s.memory_kind(), "device");
  expect_parts(s.to_string(), {"mesh=AbstractMesh('data': 64, 'model': 32", "spec="});
  const std::string m = message_of<IndivisibleError>([&] { (void)s.shard_shape({100, 64}); });
  expect_parts(m, {"abstract_mesh_test.cc:", "dimension 0", "64 equal parts", "[100,64]"});
  expect_parts(message_of<ShardingError>([&] { NamedSharding(pod, P("batch")); }),
               {"abstract_mesh_test.cc:", "'batch'", "'data', 'model'"});
}

TEST(AbstractMesh, MemoryKindsAreChecked) {
  const AbstractMesh pod({{"data", 64}});
  expect_parts(message_of<ValueError>([&] { NamedSharding(pod, P(), "fast"); }),
               {"abstract_mesh_test.cc:", "'fast'", "the kinds: device"});
  expect_parts(
      message_of<ValueError>([&] { (void)NamedSharding(pod, P()).with_memory_kind("fast"); }),
      {"abstract_mesh_test.cc:", "'fast'"});
}

TEST(AbstractMesh, Behaviour_072_DevicesOfAShardingAreAnError) {
  const NamedSharding s(AbstractMesh({{"x", 4}}), P("x"));
  const auto refused = [&](const std::string& m, const char* property) {
    expect_parts(m, {"abstract_mesh_test.cc:", property, "AbstractMesh('x': 4", "is abstract"});
  };
  refused(message_of<ValueError>([&] { (void)s.device_set(); }), "device_set of");
  refused(message_of<ValueError>([&] { (void)s.device_list(); }), "device_list of");
  refused(message_of<ValueError>([&] { (void)s.addressable_devices(); }), "addressable_devices of");
  refused(message_of<ValueError>([&] { (void)s.is_fully_addressable(); }),
          "is_fully_addressable of");
  refused(message_of<ValueError>([&] { (void)s.devices_indices_map({8}); }),
          "devices_indices_map of");
  refused(message_of<ValueError>([&] { (void)s.addressable_devices_indices_map({8}); }),
          "devices_indices_map of");
  refused(message_of<ValueError>([&] { (void)s.replica_ids({8}); }), "replica_ids of");
}

TEST(AbstractMesh, Behaviour_073_EqualAndEquivalentWithoutDevices) {
  const AbstractMesh pod({{"data", 64}, {"model", 32}}), same({64, 32}, {"data", "model"});
  const NamedSharding a(pod, P("data")), b(same, P("data"));
  EXPECT_TRUE(a == b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_TRUE(a.is_equivalent_to(b, 2));
  EXPECT_FALSE(a == NamedSharding(pod, P("data", nullptr)));
  EXPECT_TRUE(a.is_equivalent_to(NamedSharding(pod, P("data", nullptr)), 2));
  // Axes of other names give equal placements.
  EXPECT_TRUE(a.is_equivalent_to(NamedSharding(AbstractMesh({64, 32}, {"p", "q"}), P("p")), 2));
  EXPECT_FALSE(a.is_equivalent_to(NamedSharding(AbstractMesh({64, 16}, {"p", "q"}), P("p")), 2));
  // No devices are not the devices of a mesh.
  const Mesh mesh(some_devices(8), {2, 4}, {"x", "y"});
  const NamedSharding real(mesh, P("x")), abstract(mesh.abstract_mesh(), P("x"));
  EXPECT_FALSE(real == abstract);
  EXPECT_FALSE(abstract == real);
  EXPECT_FALSE(real.is_equivalent_to(abstract, 1));
}

}  // namespace
}  // namespace tessera
