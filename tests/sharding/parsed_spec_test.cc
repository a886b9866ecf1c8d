// SPDX-License-Identifier: Apache-2.0
// Parsed specs, maps from axes to dims, shapes of the parts of processes.
#include <tessera/sharding/parsed_spec.h>

#include <gtest/gtest.h>

#include <unordered_map>
#include <unordered_set>

#include <tessera/sharding.h>
#include <tessera/sharding/abstract_mesh.h>

#include "tests/sharding/random_case.h"
#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;

ParsedPartitionSpec parsed(const P& spec) {
  return ParsedPartitionSpec::from_user_input(spec, "in_shardings");
}

TEST(ParsedSpec, IsAListOfAxesPerDim) {
  const auto p = parsed(P("x", nullptr, axes("y", "z")));
  ASSERT_EQ(p.size(), 3u);
  EXPECT_EQ(p[0].axes(), (std::vector<std::string>{"x"}));
  EXPECT_TRUE(p[1].is_none());
  EXPECT_EQ(p[2].axes(), (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(p.sync(), SpecSync::in_sync);
  EXPECT_EQ(p.to_string(), "<partitions=(('x',), (), ('y', 'z')) sync=IN_SYNC>");
  expect_parts(message_of<ValueError>([&] { (void)p[3]; }), {"entry 3", "which has 3"});
}

TEST(ParsedSpec, NoneAndTheEmptySpecDiffer) {
  const auto none = ParsedPartitionSpec::from_user_input(std::nullopt, "in_shardings");
  EXPECT_TRUE(none == ParsedPartitionSpec());
  EXPECT_EQ(none.user_spec(), std::nullopt);
  EXPECT_FALSE(none == parsed(P()));
  EXPECT_EQ(none.size(), parsed(P()).size());
  EXPECT_EQ(none.hash(), parsed(P()).hash());
  EXPECT_TRUE(none.get_partition_spec() == P());
}

TEST(ParsedSpec, RefusesRepeatedAxesAndUnconstrained) {
  expect_parts(message_of<DuplicateSpecError>([] { (void)parsed(P("x", axes("y", "x"))); }),
               {"parsed_spec_test.cc:", "in_shardings", "PartitionSpec('x', ('y', 'x'))",
                "duplicate entries for 'x'"});
  expect_parts(message_of<ValueError>([] { (void)parsed(P("x", UNCONSTRAINED)); }),
               {"in_shardings", "UNCONSTRAINED", "PartitionSpec('x', UNCONSTRAINED)"});
  const auto open = ParsedPartitionSpec::from_user_input(P(UNCONSTRAINED, "x"), "shardings", true);
  EXPECT_TRUE(open[0].is_unconstrained());
  EXPECT_TRUE(open.get_partition_spec() == P(UNCONSTRAINED, "x"));
  EXPECT_EQ(open.to_string(), "<partitions=(UNCONSTRAINED, ('x',)) sync=IN_SYNC>");
}

TEST(ParsedSpec, Behaviour_051_InsertedDimsAreNeverShownAsTheUsers) {
  const auto p = parsed(P("x", nullptr));
  const auto moved = p.insert_axis_partitions(0, {});
  EXPECT_EQ(moved.sync(), SpecSync::dim_permute);
  EXPECT_TRUE(*moved.unsynced_user_spec(SpecSync::dim_permute) == P("x", nullptr));
  EXPECT_TRUE(moved.get_partition_spec() == P(nullptr, "x", nullptr));
  expect_parts(message_of<ValueError>([&] { (void)moved.user_spec(); }),
               {"parsed_spec_test.cc:", "<partitions=((), ('x',), ()) sync=DIM_PERMUTE>",
                "IN_SYNC or more", "get_partition_spec()"});

  const auto more = moved.insert_axis_partitions(1, {"y", "z"});
  EXPECT_EQ(more.sync(), SpecSync::out_of_sync);
  EXPECT_TRUE(more.get_partition_spec() == P(nullptr, axes("y", "z"), "x", nullptr));
  expect_parts(
      message_of<ValueError>([&] { (void)more.unsynced_user_spec(SpecSync::dim_permute); }),
      {"OUT_OF_SYNC", "DIM_PERMUTE or more"});
  EXPECT_TRUE(*more.unsynced_user_spec(SpecSync::out_of_sync) == P("x", nullptr));
  // The level never rises again.
  EXPECT_EQ(more.insert_axis_partitions(0, {}).sync(), SpecSync::out_of_sync);
}

TEST(ParsedSpec, InsertedDimsBeyondTheEndFillTheGap) {
  const auto p = parsed(P("x")).insert_axis_partitions(3, {"y"});
  EXPECT_TRUE(p.get_partition_spec() == P("x", nullptr, nullptr, "y"));
  expect_parts(message_of<ValueError>([&] { (void)p.insert_axis_partitions(-1, {}); }),
               {"no dimension -1"});
  expect_parts(message_of<DuplicateSpecError>([&] { (void)p.insert_axis_partitions(0, {"x"}); }),
               {"'x' can't be inserted as dimension 0", "('y',)", "uses 'x' already"});
  const auto sum = parsed(P("x").with_unreduced({"u"}));
  EXPECT_TRUE(sum.insert_axis_partitions(0, {}).get_partition_spec() ==
              P(nullptr, "x").with_unreduced({"u"}));
  EXPECT_TRUE(
      parsed(P("x").with_reduced({"r"})).insert_axis_partitions(1, {}).get_partition_spec() ==
      P("x", nullptr).with_reduced({"r"}));
  EXPECT_NE(P("x").with_reduced({"u"}).hash(), P("x").with_unreduced({"u"}).hash());
  expect_parts(message_of<DuplicateSpecError>([&] { (void)sum.insert_axis_partitions(0, {"u"}); }),
               {"uses 'u' already"});
}

TEST(ParsedSpec, EqualityAndHash) {
  const auto a = parsed(P("x")).insert_axis_partitions(0, {});
  const auto b = parsed(P(nullptr, "x"));
  EXPECT_TRUE(a.partitions() == b.partitions());
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.hash(), b.hash());  // the sync levels differ
  // Equal partitions and sync levels hash alike, whatever the user wrote.
  const ParsedPartitionSpec made(std::nullopt, b.partitions());
  EXPECT_FALSE(made == b);
  EXPECT_EQ(made.hash(), b.hash());
  std::unordered_set<ParsedPartitionSpec> set{a, b, made, a};
  EXPECT_EQ(set.size(), 3u);
}

TEST(ParsedSpec, ManualAxes) {
  const auto p = parsed(P("x")).with_manual_axes({"m"});
  EXPECT_EQ(p.manual_axes(), (std::vector<std::string>{"m"}));
  EXPECT_FALSE(p == parsed(P("x")));
  EXPECT_EQ(p.to_string(), "<partitions=(('x',),) manual=('m') sync=IN_SYNC>");
  expect_parts(message_of<DuplicateSpecError>([&] { (void)p.with_manual_axes({"x"}); }),
               {"can't be manual and split a dimension", "'x'"});
}

TEST(ArrayMappings, Behaviour_068_MapsOfAxesToDims) {
  const ArrayMapping mapping{{"x", 0}, {"y", 0}, {"z", 2}};
  EXPECT_TRUE(array_mapping_to_axis_resources(mapping) == P(axes("x", "y"), nullptr, "z"));
  EXPECT_EQ(get_array_mapping(P(axes("x", "y"), nullptr, "z")), mapping);
  EXPECT_EQ(get_array_mapping(parsed(P(axes("x", "y"), nullptr, "z"))), mapping);
  EXPECT_TRUE(array_mapping_to_axis_resources({}) == P());
  // The order of the axes on one dim is that of the map.
  EXPECT_TRUE(array_mapping_to_axis_resources({{"y", 1}, {"z", 0}, {"x", 1}}) ==
              P("z", axes("y", "x")));
  EXPECT_TRUE(get_single_pspec(parsed(P("x", nullptr))) == P("x"));
}

TEST(ArrayMappings, Errors) {
  expect_parts(message_of<ValueError>([] {
                 (void)array_mapping_to_axis_resources({{"x", 0}, {"y", -2}});
               }),
               {"parsed_spec_test.cc:", "{'x': 0, 'y': -2}", "'y' on dimension -2", "0 to 65535"});
  expect_parts(message_of<DuplicateSpecError>([] {
                 (void)array_mapping_to_axis_resources({{"x", 0}, {"x", 1}});
               }),
               {"{'x': 0, 'x': 1}", "more than once: 'x'"});
  expect_parts(message_of<DuplicateSpecError>([] { (void)get_array_mapping(P("x", "x")); }),
               {"PartitionSpec('x', 'x')", "more than once: 'x'"});
}

TEST(ArrayMappings, RandomSpecsAndBack) {
  test::RandomCase random("RandomSpecsAndBack");
  for (int trial = 0; trial < 10000; ++trial) {
    std::vector<std::string> free{"a", "b", "c", "d", "e"};
    random.shuffle(free);
    std::vector<SpecEntry> entries;
    for (std::int64_t d = random.below(6); d > 0; --d) {
      std::vector<std::string> of_dim;
      while (!free.empty() && random.chance(45)) {
        of_dim.push_back(free.back());
        free.pop_back();
      }
      entries.emplace_back(of_dim);
    }
    while (!entries.empty() && entries.back().is_none()) entries.pop_back();
    const P spec = P::from_entries(entries);
    ASSERT_TRUE(array_mapping_to_axis_resources(get_array_mapping(spec)) == spec)
        << "seed " << random.seed() << ": " << spec.to_string();
  }
}

/// 2 x 4 devices, of which those of columns `from` to `to` belong to this process.
Mesh mesh_of_processes(std::int64_t from, std::int64_t to) {
  std::vector<Device> all = some_devices(8);
  for (Device& d : all) d.process_index = d.id % 4 >= from && d.id % 4 < to ? 0 : 1;
  return Mesh(all, {2, 4}, {"x", "y"});
}

TEST(LocalMeshes, AreTheBlockOfThisProcess) {
  const Mesh mesh = mesh_of_processes(2, 4);
  EXPECT_TRUE(mesh.is_multi_process());
  const Mesh local = mesh.local_mesh();
  EXPECT_EQ(local.shape(), (Mesh::Shape{{"x", 2}, {"y", 2}}));
  EXPECT_EQ(local.device_ids(), (std::vector<std::int64_t>{2, 3, 6, 7}));
  EXPECT_FALSE(local.is_multi_process());
  EXPECT_TRUE(local.local_mesh() == local);

  std::vector<Device> all = some_devices(4);
  all[1].process_index = 1;
  expect_parts(message_of<ShardingError>([&] { (void)Mesh(all, "x").local_mesh(); }),
               {"parsed_spec_test.cc:", "contiguous block", "axis 'x'"});
  all[1].process_index = 0;
  all[3].process_index = 1;
  expect_parts(message_of<ShardingError>([&] {
                 (void)Mesh(all, {2, 2}, {"x", "y"}).local_mesh();
               }),
               {"contiguous block", "cpu:3 of process 1 stands among them"});
  expect_parts(message_of<ValueError>([] { (void)mesh_of_processes(4, 4).local_mesh(); }),
               {"none of its devices"});
}

TEST(LocalMeshes, Behaviour_352_LocalAndGlobalShapes) {
  const Mesh mesh = mesh_of_processes(0, 2);
  const ArrayMapping mapping = get_array_mapping(P("y", "x"));
  const auto local = PositionalSemantics::local, global = PositionalSemantics::global;
  using Dims = std::vector<std::int64_t>;
  EXPECT_EQ(local_to_global(local, mesh, mapping, {6, 8}), (Dims{12, 8}));
  EXPECT_EQ(global_to_local(local, mesh, mapping, {12, 8}), (Dims{6, 8}));
  EXPECT_EQ(local_to_global(global, mesh, mapping, {6, 8}), (Dims{6, 8}));
  EXPECT_EQ(global_to_local(global, mesh, mapping, {6, 8}), (Dims{6, 8}));
  // One process: both are the same.
  const Mesh own(some_devices(8), {2, 4}, {"x", "y"});
  EXPECT_EQ(local_to_global(local, own, mapping, {6, 8}), (Dims{6, 8}));
  EXPECT_EQ(global_to_local(local, own, mapping, {6, 8}), (Dims{6, 8}));
  expect_parts(message_of<IndivisibleError>([&] {
                 (void)global_to_local(local, mesh, mapping, {5, 8});
               }),
               {"dimension 0 of shape [5,8]", "the 2 along axis 'y'"});
  expect_parts(message_of<ValueError>([&] {
                 (void)local_to_global(local, mesh, {{"y", 2}}, {5, 8});
               }),
               {"axis 'y' is mapped to dimension 2", "[5,8] lacks"});
  expect_parts(message_of<ValueError>([&] {
                 (void)local_to_global(local, mesh, {{"z", 0}}, {5, 8});
               }),
               {"axis 'z' is not in"});
}

TEST(Hashes, KeysOfUnorderedContainers) {
  const Mesh mesh(some_devices(8), {4, 2}, {"x", "y"});
  const Mesh same(some_devices(8), {4, 2}, {"x", "y"});
  const Mesh other(some_devices(8), {2, 4}, {"x", "y"});
  EXPECT_EQ((std::unordered_set<Mesh>{mesh, same, other}).size(), 2u);
  const AbstractMesh pod({{"x", 4}, {"y", 2}});
  EXPECT_EQ((std::unordered_set<AbstractMesh>{pod, mesh.abstract_mesh()}).size(), 1u);

  std::unordered_map<PartitionSpec, int> specs;
  specs[P("x", nullptr)] = 1;
  specs[P(axes("x"), nullptr)] = 2;
  specs[P("x")] = 3;
  specs[P("x").with_unreduced({"y"})] = 4;
  EXPECT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[P("x", nullptr)], 2);

  std::unordered_map<Sharding, int> shardings;
  shardings[NamedSharding(mesh, P("x"))] = 1;
  shardings[NamedSharding(same, P("x"))] = 2;
  shardings[NamedSharding(pod, P("x"))] = 3;
  shardings[SingleDeviceSharding(some_devices(1)[0])] = 4;
  shardings[GSPMDSharding(some_devices(8), "{devices=[4,2]<=[8]}")] = 5;
  shardings[PositionalSharding(some_devices(8), {4, 2})] = 6;
  shardings[PositionalSharding(mesh)] = 7;
  shardings[PmapSharding::make_default({8}, 0, some_devices(8))] = 8;
  EXPECT_EQ(shardings.size(), 6u);
  EXPECT_EQ(shardings[NamedSharding(mesh, P("x"))], 2);
  EXPECT_EQ(shardings[PositionalSharding(some_devices(8)).reshape({4, 2})], 7);
  EXPECT_EQ((std::unordered_set<NamedSharding>{{mesh, P("x")}, {same, P("x")}}).size(), 1u);
  // Stable while the process runs.
  EXPECT_EQ(P("x", "y").hash(), std::hash<P>()(P("x", "y")));
}

}  // namespace
}  // namespace tessera
