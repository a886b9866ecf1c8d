// SPDX-License-Identifier: Apache-2.0
// Structured specs of PmapSharding, arrangements of PositionalSharding, scopes on other threads.
#include <tessera/sharding/sharding_spec.h>

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include <tessera/sharding.h>
#include <tessera/sharding/abstract_mesh.h>

#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;
using Dims = std::vector<std::int64_t>;

TEST(ShardingSpecs, RowsOverTheSecondDimOfTheDevices) {
  const ShardingSpec spec{{Chunked{{4}}, NoSharding{}}, {Replicated{2}, ShardedAxis{0}}};
  EXPECT_EQ(spec.to_string(),
            "ShardingSpec((Chunked(4), NoSharding()), (Replicated(2), ShardedAxis(0)))");
  EXPECT_EQ(spec.devices_shape(), (Dims{2, 4}));
  const PmapSharding s(some_devices(8), spec);
  EXPECT_TRUE(s.sharding_spec() == spec);
  EXPECT_EQ(s.shard_shape({8, 3}), (Dims{2, 3}));
  EXPECT_FALSE(s.is_fully_replicated());
  const Mesh mesh(some_devices(8), {2, 4}, {"copy", "row"});
  EXPECT_TRUE(s.is_equivalent_to(NamedSharding(mesh, P("row")), 2));
  const auto parts = s.devices_indices_map({8, 3});
  EXPECT_EQ(parts.at(some_devices(8)[6])[0], (IndexSlice{4, 6}));
  EXPECT_EQ(s.replica_ids({8, 3}).at(some_devices(8)[6]), 1);
}

TEST(ShardingSpecs, SeveralDivisionsOfOneDim) {
  // Division 0 (2 parts) and 1 (4 parts) of dim 0, the columns in 1 per device of dim 2.
  const ShardingSpec spec{{Chunked{{2, 2}}, Unstacked{2}},
                          {ShardedAxis{1}, ShardedAxis{2}, ShardedAxis{0}}};
  EXPECT_EQ(spec.to_string(),
            "ShardingSpec((Chunked(2, 2), Unstacked(2)), "
            "(ShardedAxis(1), ShardedAxis(2), ShardedAxis(0)))");
  const PmapSharding s(some_devices(8), spec);
  const Mesh mesh(some_devices(8), {2, 2, 2}, {"b", "c", "a"});
  EXPECT_TRUE(s.is_equivalent_to(NamedSharding(mesh, P(axes("a", "b"), "c")), 2));
  EXPECT_EQ(s.shard_shape({8, 2}), (Dims{2, 1}));
  EXPECT_TRUE(s == PmapSharding(some_devices(8), spec));
  EXPECT_EQ(s.hash(), PmapSharding(some_devices(8), spec).hash());
  ShardingSpec other = spec;
  other.sharding[1] = Chunked{{2}};
  EXPECT_FALSE(s == PmapSharding(some_devices(8), other));
  EXPECT_TRUE(s.is_equivalent_to(PmapSharding(some_devices(8), other), 2));
}

TEST(ShardingSpecs, Errors) {
  const auto refused = [](const ShardingSpec& spec, std::int64_t devices = 4) {
    return message_of<ValueError>([&] { (void)PmapSharding(some_devices(devices), spec); });
  };
  expect_parts(refused({{Chunked{{4}}}, {}}),
               {"sharding_spec_test.cc:", "ShardingSpec((Chunked(4),), ())", "division 0 nowhere"});
  expect_parts(refused({{Chunked{{4}}}, {ShardedAxis{0}, ShardedAxis{0}}}),
               {"division 0 2 times", "once"});
  expect_parts(refused({{Chunked{{4}}}, {ShardedAxis{1}}}),
               {"no division 1", "the dims of the array have 1"});
  expect_parts(refused({{Chunked{{0}}}, {ShardedAxis{0}}}), {"0 isn't a number of parts"});
  expect_parts(refused({{NoSharding{}}, {Replicated{-2}}}), {"-2 isn't a number of parts"});
  expect_parts(refused({{Chunked{{2}}}, {ShardedAxis{0}, Replicated{3}}}),
               {"devices of shape [2,3]", "6 of them", "4 are given"});
  expect_parts(
      message_of<ShardingError>([] {
        (void)PmapSharding(some_devices(2), {{Chunked{{2}}}, {ShardedAxis{0}}}).shard_shape({2, 2});
      }),
      {"rank 1", "rank 2"});
}

TEST(Arrangements, OfAnyRankAndOfMeshes) {
  const PositionalSharding s(some_devices(8), {2, 4});
  EXPECT_EQ(s.shape(), (Dims{2, 4}));
  EXPECT_TRUE(s == PositionalSharding(some_devices(8)).reshape({2, 4}));
  const Mesh mesh(some_devices(8), {2, 4}, {"x", "y"});
  EXPECT_TRUE(PositionalSharding(mesh) == s);
  EXPECT_TRUE(s.is_equivalent_to(NamedSharding(mesh, P("x", "y")), 2));
  EXPECT_TRUE(s.replicate(0).is_equivalent_to(NamedSharding(mesh, P(nullptr, "y")), 2));
  EXPECT_EQ(PositionalSharding(some_devices(2), "device").to_string(),
            "PositionalSharding([{cpu:0} {cpu:1}], memory_kind=device, shape=[2])");
  expect_parts(message_of<ValueError>([] {
                 PositionalSharding(some_devices(8), {3, 2});
               }),
               {"sharding_spec_test.cc:", "8 devices", "shape [3,2]", "6 places"});
  expect_parts(message_of<ValueError>([] {
                 PositionalSharding(some_devices(8), {-8, -1});
               }),
               {"shape [-8,-1]", "at least 1"});
  expect_parts(message_of<ValueError>([] {
                 PositionalSharding(AbstractMesh({{"x", 2}}));
               }),
               {"sharding_spec_test.cc:", "abstract"});
  expect_parts(message_of<ValueError>([] { PositionalSharding(some_devices(2), "paper"); }),
               {"paper"});
}

template <class Scope, class MeshType>
std::string ended_elsewhere(const MeshType& mesh) {
  std::string text;
  Scope* scope = new Scope(mesh);
  std::thread([&] {
    // The other thread's own scope is left alone.
    const MeshScope own(Mesh(some_devices(2), "own"));
    try {
      delete scope;
    } catch (const RuntimeError& e) {
      text = e.what();
    }
    EXPECT_TRUE(current_mesh().has_axis("own"));
  }).join();
  return text;
}

TEST(Scopes, EndOnTheThreadWhereTheyBegan) {
  const Mesh before = current_mesh();
  // On a thread of its own, since the scopes that can't end stay in place.
  std::thread([] {
    const Mesh mesh(some_devices(8), {4, 2}, {"x", "y"});
    expect_parts(ended_elsewhere<MeshScope>(mesh),
                 {"sharding_spec_test.cc:", "a MeshScope ends on another thread"});
    EXPECT_TRUE(current_mesh() == mesh);
    expect_parts(ended_elsewhere<AbstractMeshScope>(mesh.abstract_mesh()),
                 {"sharding_spec_test.cc:", "an AbstractMeshScope ends on another thread"});
  }).join();
  EXPECT_TRUE(current_mesh() == before);
}

}  // namespace
}  // namespace tessera
