// SPDX-License-Identifier: Apache-2.0
// The sharding classes: shards, indices, equivalence.
#include <tessera/sharding.h>

#include <gtest/gtest.h>

#include "src/sharding/api/lowering.h"
#include "src/sharding/api/shard_layout.h"
#include "src/sharding/axes/tiling.h"
#include "tests/sharding/random_case.h"
#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::devices_of;
using test::expect_parts;
using test::message_of;
using test::some_devices;
using Dims = std::vector<std::int64_t>;

const Mesh& cube_mesh() {
  static const Mesh m(some_devices(8), {4, 2}, {"x", "y"});
  return m;
}
NamedSharding named(const P& spec) { return NamedSharding(cube_mesh(), spec); }

Dims replica_ids(const Sharding& s, const Dims& shape) {
  Dims out;
  for (const auto& [device, id] : s.replica_ids(shape)) out.push_back(id);
  return out;
}

TEST(Sharding, Behaviour_053_TilesAndDevicesOfATransposedSpec) {
  const NamedSharding s = named(P("y", "x"));
  EXPECT_EQ(s.to_hlo_text(2), "{devices=[2,4]<=[4,2]T(1,0)}");
  EXPECT_EQ(to_tiling(to_tensor_sharding(s, 2)).device_list(), (Dims{0, 2, 4, 6, 1, 3, 5, 7}));
  const Index index = s.devices_indices_map({8, 4}).at(Device{});
  EXPECT_EQ(index[0], (IndexSlice{0, 4}));
  EXPECT_EQ(index[1], (IndexSlice{0, 1}));
}

TEST(Sharding, Behaviour_054_ShardShapesAndReplicaIds) {
  const Dims shape{8, 2}, zeros(8, 0);
  EXPECT_EQ(named(P("x", "y")).shard_shape(shape), (Dims{2, 1}));
  EXPECT_EQ(replica_ids(named(P("x", "y")), shape), zeros);
  EXPECT_EQ(named(P("x")).shard_shape(shape), (Dims{2, 2}));
  EXPECT_EQ(replica_ids(named(P("x")), shape), (Dims{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(named(P("y")).shard_shape(shape), (Dims{4, 2}));
  EXPECT_EQ(replica_ids(named(P("y")), shape), (Dims{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(named(P(nullptr, "y")).shard_shape(shape), (Dims{8, 1}));
  EXPECT_EQ(replica_ids(named(P(nullptr, "y")), shape), (Dims{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(named(P(axes("x", "y"))).shard_shape(shape), (Dims{1, 2}));
  EXPECT_EQ(replica_ids(named(P(axes("x", "y"))), shape), zeros);
  EXPECT_EQ(named(P()).shard_shape(shape), shape);
  EXPECT_EQ(replica_ids(named(P()), shape), (Dims{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(named(P()).is_fully_replicated());
  EXPECT_FALSE(named(P("x")).is_fully_replicated());
}

TEST(Sharding, Behaviour_055_AnUnsplitDimIsAnOpenSlice) {
  const Index index = named(P("x")).devices_indices_map({8, 3}).at(devices_of({2})[0]);
  EXPECT_EQ(index[0].to_string(), "2:4");
  EXPECT_EQ(index[1], IndexSlice{});
  EXPECT_EQ(index[1].to_string(), ":");
}

TEST(Sharding, Behaviour_056_ShardShapes) {
  const Dims shape{8, 4};
  EXPECT_EQ(named(P("x", "y")).shard_shape(shape), (Dims{2, 2}));
  EXPECT_EQ(named(P("x")).shard_shape(shape), (Dims{2, 4}));
  EXPECT_EQ(named(P("y")).shard_shape(shape), (Dims{4, 4}));
  EXPECT_EQ(named(P(nullptr, "y")).shard_shape(shape), (Dims{8, 2}));
  EXPECT_EQ(named(P(nullptr, "x")).shard_shape(shape), (Dims{8, 1}));
  EXPECT_EQ(named(P(axes("x", "y"))).shard_shape(shape), (Dims{1, 4}));
  EXPECT_EQ(named(P()).shard_shape(shape), (Dims{8, 4}));
}

TEST(Sharding, Behaviour_057_ADimThatIsNoMultiple) {
  const NamedSharding s = named(P("y", "x"));
  const std::vector<std::string> facts = {"PartitionSpec('y', 'x')", "dimension 1",
                                          "into 4 equal parts",      "its size is 6",
                                          "full shape: [8,6]",       "[2,4]"};
  const std::string m = message_of<IndivisibleError>([&] { s.shard_shape({8, 6}); });
  expect_parts(m, facts);
  expect_parts(m, {"sharding_test.cc:"});
  expect_parts(message_of<IndivisibleError>([&] { s.devices_indices_map({8, 6}); }), facts);
  expect_parts(message_of<IndivisibleError>([&] { s.replica_ids({8, 6}); }), facts);
  EXPECT_THROW(s.shard_shape({8, 6}), ValueError);
  EXPECT_EQ(s.shard_shape({0, 4}), (Dims{0, 1}));
  expect_parts(message_of<ValueError>([&] { s.shard_shape({-2, 4}); }), {"-2"});
}

TEST(Sharding, Behaviour_058_FullyReplicatedWithoutASplit) {
  const Mesh one(some_devices(1), {1, 1}, {"x", "y"});
  for (const P& spec : {P("x", "y"), P("x"), P(axes("x", "y")), P(), P(nullptr, nullptr)}) {
    EXPECT_TRUE(NamedSharding(one, spec).is_fully_replicated()) << spec.to_string();
    EXPECT_EQ(NamedSharding(one, spec).to_hlo_text(2), "{replicated}");
  }
  const Mesh thin(some_devices(4), {4, 1}, {"x", "y"});
  for (const P& spec : {P("y"), P(nullptr, "y"), P(), P(axes(), axes()), P(nullptr)}) {
    EXPECT_TRUE(NamedSharding(thin, spec).is_fully_replicated()) << spec.to_string();
  }
  for (const P& spec : {P("x"), P("y", "x"), P(axes("y", "x"))}) {
    EXPECT_FALSE(NamedSharding(thin, spec).is_fully_replicated()) << spec.to_string();
  }
}

TEST(Sharding, Behaviour_059_AnUnreducedValueIsNotReplicated) {
  const NamedSharding s = named(P().with_unreduced({"x"}));
  EXPECT_FALSE(s.is_fully_replicated());
  EXPECT_EQ(s.to_hlo_text(1), "{devices=[1,4,2]<=[8] last_tile_dims={unreduced, replicated}}");
  EXPECT_EQ(s.shard_shape({5}), (Dims{5}));
}

TEST(Sharding, Behaviour_060_EquivalenceAcrossClasses) {
  const Mesh one(some_devices(1), "x");
  EXPECT_TRUE(NamedSharding(one, P("x")).is_equivalent_to(SingleDeviceSharding(Device{}), 2));
  const Mesh two(some_devices(2), {2, 1}, {"x", "y"});
  EXPECT_TRUE(
      NamedSharding(two, P("y"))
          .is_equivalent_to(
              GSPMDSharding(some_devices(2), "{devices=[1,1,2]<=[2] last_tile_dim_replicate}"), 2));
  EXPECT_TRUE(
      named(P("y", "x"))
          .is_equivalent_to(GSPMDSharding(some_devices(8), "{devices=[2,4]0,2,4,6,1,3,5,7}"), 2));
  EXPECT_FALSE(
      named(P("x", "y"))
          .is_equivalent_to(GSPMDSharding(some_devices(8), "{devices=[2,4]0,2,4,6,1,3,5,7}"), 2));
  EXPECT_TRUE(
      named(P("x", "y")).is_equivalent_to(PositionalSharding(some_devices(8)).reshape({4, 2}), 2));
  EXPECT_FALSE(GSPMDSharding::get_replicated(devices_of({0, 1}))
                   .is_equivalent_to(GSPMDSharding::get_replicated(devices_of({2, 3})), 2));
  EXPECT_FALSE(SingleDeviceSharding(devices_of({0})[0])
                   .is_equivalent_to(SingleDeviceSharding(devices_of({1})[0]), 1));
}

TEST(Sharding, Behaviour_061_TheOrderOfDevicesCounts) {
  const Mesh a(devices_of({0, 1, 2, 3}), "x"), b(devices_of({0, 2, 1, 3}), "x");
  EXPECT_FALSE(NamedSharding(a, P("x")).is_equivalent_to(NamedSharding(b, P("x")), 1));
  EXPECT_FALSE(NamedSharding(a, P()).is_equivalent_to(NamedSharding(b, P()), 1));
}

TEST(Sharding, Behaviour_062_MemoryKinds) {
  const NamedSharding plain = named(P("x")), kind(cube_mesh(), P("x"), "device");
  EXPECT_EQ(plain.memory_kind(), "device");
  EXPECT_TRUE(plain == kind);
  EXPECT_TRUE(plain.is_equivalent_to(kind, 1));
  EXPECT_TRUE(plain.with_memory_kind("device") == plain);
  for (const char* other : {"pinned_host", "unpinned_host"}) {
    const Sharding s = plain.with_memory_kind(other);
    EXPECT_EQ(s.memory_kind(), other);
    EXPECT_FALSE(s == plain);
    EXPECT_FALSE(s.is_equivalent_to(plain, 1));
    EXPECT_TRUE(s == NamedSharding(cube_mesh(), P("x"), other));
    EXPECT_TRUE(s.with_memory_kind("device") == plain);
  }
  const std::string m =
      message_of<ValueError>([&] { NamedSharding(cube_mesh(), P("x"), "nothing"); });
  expect_parts(m, {"sharding_test.cc:", "'nothing'", "cpu:0",
                   "can address the kinds: device, pinned_host, unpinned_host"});
  expect_parts(message_of<ValueError>([&] { plain.with_memory_kind("nothing"); }), {"'nothing'"});
  expect_parts(message_of<ValueError>([] { SingleDeviceSharding(Device{}, "nothing"); }),
               {"'nothing'", "cpu:0"});
  expect_parts(message_of<ValueError>([] {
                 SingleDeviceSharding(Device{0, 0, "other"}, "pinned_host");
               }),
               {"'pinned_host'", "other:0"});
}

TEST(Sharding, Behaviour_063_TilingsThatSplitNothingAreOne) {
  const std::vector<Device> two = some_devices(2);
  const GSPMDSharding a(two, "{devices=[1,1,2]<=[2] last_tile_dim_replicate}");
  const GSPMDSharding b(two, "{replicated}");
  EXPECT_TRUE(a == b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_TRUE(a.is_fully_replicated());
  const GSPMDSharding one(some_devices(1), "{devices=[1,1,1,1]0}");
  for (const char* text : {"{devices=[1]0}", "{replicated}", "{maximal device=0}"}) {
    const GSPMDSharding other(some_devices(1), text);
    EXPECT_TRUE(one == other) << text;
    EXPECT_EQ(one.hash(), other.hash()) << text;
  }
}

TEST(Sharding, Behaviour_064_SubgroupsOfSizeOne) {
  const GSPMDSharding s(some_devices(1),
                        "{devices=[1,1,1,1]0 last_tile_dims={replicated, manual}}");
  EXPECT_TRUE(s.is_fully_replicated());
  EXPECT_TRUE(s == GSPMDSharding::get_replicated(some_devices(1)));
}

TEST(Sharding, Behaviour_065_RandomSpecsSurviveConversionToTilingsAndBack) {
  test::RandomCase random("RandomSpecsSurviveTheWayThroughTilings");
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const Dims sizes{2, 3, 4, 7, 4};
  const Mesh big(some_devices(672), sizes, names);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::string> free = names;
    random.shuffle(free);
    std::vector<SpecEntry> entries;
    for (std::int64_t d = random.below(6); d > 0; --d) {
      std::vector<std::string> axes;
      while (!free.empty() && random.chance(45)) {
        axes.push_back(free.back());
        free.pop_back();
      }
      entries.emplace_back(axes);
    }
    const P spec = P::from_entries(entries);
    SCOPED_TRACE("seed " + std::to_string(random.seed()) + ": " + spec.to_string());
    while (!entries.empty() && entries.back().is_none()) entries.pop_back();
    const P trimmed = P::from_entries(entries);
    const NamedSharding s(big, spec);
    const GSPMDSharding tiled(big.devices(), s.to_hlo_text(5));
    ASSERT_TRUE(s.is_equivalent_to(tiled, 5));
    const auto back = to_named_sharding(tiled, big, 5);
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(back->spec() == trimmed) << back->to_string();
    // Through axes without names, and back onto the mesh.
    const TensorSharding axes = to_tensor_sharding(tiled, 5);
    EXPECT_TRUE(to_public_sharding(axes, big, big.devices()) == NamedSharding(big, trimmed));
  }
}

TEST(Sharding, Behaviour_066_AnOrderOfDevicesThatNoAxesGive) {
  EXPECT_EQ(to_named_sharding(GSPMDSharding(some_devices(8), "{devices=[8]0,1,2,3,4,5,7,6}"),
                              cube_mesh(), 1),
            std::nullopt);
  // Part of an axis only.
  EXPECT_EQ(to_named_sharding(
                GSPMDSharding(some_devices(8), "{devices=[2,4]<=[8] last_tile_dim_replicate}"),
                cube_mesh(), 1),
            std::nullopt);
  // Other devices.
  EXPECT_EQ(to_named_sharding(GSPMDSharding::get_replicated(some_devices(4)), cube_mesh(), 1),
            std::nullopt);
  // The same devices in another order are the mesh's axes after all.
  const Mesh turned(devices_of({0, 4, 1, 5, 2, 6, 3, 7}), {4, 2}, {"x", "y"});
  const auto s =
      to_named_sharding(GSPMDSharding(some_devices(8), "{devices=[2,4]<=[8]}"), turned, 2);
  ASSERT_TRUE(s.has_value());
  EXPECT_TRUE(s->spec() == P("y", "x"));
  EXPECT_EQ(s->devices_indices_map({2, 4}),
            GSPMDSharding(some_devices(8), "{devices=[2,4]<=[8]}").devices_indices_map({2, 4}));
}

TEST(Sharding, Behaviour_067_TuplesOfTilings) {
  const auto a = parse_tilings("{{devices=[2]<=[2]}, {replicated}}");
  const auto b = parse_tilings("{{replicated}, {devices=[2]<=[2]}}");
  EXPECT_FALSE(a == b);
  const Mesh two(some_devices(2), "x");
  std::vector<P> specs;
  for (const Tiling& t : a) {
    specs.push_back(
        to_named_sharding(GSPMDSharding(some_devices(2), t.to_string()), two, 1)->spec());
  }
  EXPECT_TRUE(specs[0] == P("x"));
  EXPECT_TRUE(specs[1] == P());
  expect_parts(message_of<ValueError>([] { GSPMDSharding(some_devices(2), "{{replicated}}"); }),
               {"tuple"});
}

TEST(Sharding, Behaviour_070_Texts) {
  EXPECT_EQ(named(P(nullptr, "x")).to_hlo_text(2),
            "{devices=[1,4,2]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(named(P(nullptr, "y")).to_hlo_text(2),
            "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(named(P()).to_hlo_text(2), "{replicated}");
  EXPECT_EQ(named(P("x", nullptr)).to_string(),
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), "
            "spec=PartitionSpec('x', None), memory_kind=device)");
  EXPECT_EQ(SingleDeviceSharding(Device{}).to_string(),
            "SingleDeviceSharding(device=cpu:0, memory_kind=device)");
  EXPECT_EQ(GSPMDSharding(some_devices(4), "{devices=[2,2]0,1,2,3}").to_string(),
            "GSPMDSharding({devices=[2,2]<=[4]}, memory_kind=device)");
}

TEST(Sharding, Behaviour_074_TheMessageHasTheSpec) {
  expect_parts(
      message_of<ShardingError>([] {
        NamedSharding(cube_mesh(), P(axes("y"), nullptr, nullptr, nullptr)).shard_shape({2, 2});
      }),
      {"PartitionSpec('y', None, None, None)", "rank at least 4", "rank 2"});
}

TEST(Sharding, Behaviour_075_AxesThatAShardingDoesntUse) {
  using Axes = std::vector<std::string>;
  const Mesh mesh(some_devices(8), {2, 2, 2}, {"x", "y", "z"});
  EXPECT_EQ(NamedSharding(mesh, P()).replicated_axes(), (Axes{"x", "y", "z"}));
  EXPECT_EQ(NamedSharding(mesh, P(nullptr, "y")).replicated_axes(), (Axes{"x", "z"}));
  EXPECT_EQ(NamedSharding(mesh, P(axes("z", "x"))).replicated_axes(), (Axes{"y"}));
  const PartitionSpec terms = P("x").with_unreduced({"y"}).with_reduced({"z"});
  EXPECT_TRUE(NamedSharding(mesh, terms).replicated_axes().empty());
}

TEST(Sharding, Behaviour_076_NoIndicesForSums) {
  expect_parts(message_of<NotImplementedError>(
                   [] { named(P("y").with_unreduced({"x"})).devices_indices_map({2}); }),
               {"unreduced={'x'}"});
  expect_parts(message_of<NotImplementedError>(
                   [] { GSPMDSharding(some_devices(8), "{manual}").devices_indices_map({2}); }),
               {"{manual}"});
}

TEST(Sharding, Behaviour_077_TheIndexMapIsComputedOnce) {
  const auto a = shard_layout(named(P("x", "y")), {8, 4});
  EXPECT_EQ(a, shard_layout(named(P("x", "y")), {8, 4}));
  EXPECT_NE(a, shard_layout(named(P("x", "y")), {8, 8}));
  EXPECT_NE(a, shard_layout(named(P("x")), {8, 4}));
  EXPECT_EQ(a->offsets[3], (Dims{2, 2}));
}

TEST(Sharding, Behaviour_078_PmapDefault) {
  const PmapSharding s = PmapSharding::make_default({4, 6}, 0, some_devices(4));
  EXPECT_EQ(s.shard_shape({4, 6}), (Dims{1, 6}));
  EXPECT_EQ(s.devices_indices_map({4, 6}).at(devices_of({2})[0])[0], (IndexSlice{2, 3}));
  EXPECT_FALSE(s.is_fully_replicated());
  EXPECT_EQ(s.sharding_spec().to_string(),
            "ShardingSpec((Chunked(4), NoSharding()), (ShardedAxis(0),))");
  EXPECT_EQ(PmapSharding::make_default({3, 2}, 1).devices().size(), 2u);
  EXPECT_EQ(PmapSharding::make_default({3, 2}, 1).shard_shape({3, 2}), (Dims{3, 1}));
  EXPECT_EQ(PmapSharding::make_default({device_count()}).num_devices(), device_count());
  const PmapSharding copies = PmapSharding::make_default({4, 6}, std::nullopt, some_devices(3));
  EXPECT_TRUE(copies.is_fully_replicated());
  EXPECT_EQ(copies.shard_shape({4, 6}), (Dims{4, 6}));
  EXPECT_TRUE(s.is_equivalent_to(NamedSharding(Mesh(some_devices(4), "d"), P("d")), 2));
  expect_parts(message_of<ValueError>([] {
                 PmapSharding::make_default({4, 6}, 0, some_devices(3));
               }),
               {"sharding_test.cc:", "[4,6]", "size 4", "3"});
  expect_parts(message_of<ValueError>([] { PmapSharding::make_default({100000}); }),
               {"needs 100000 devices", "there are " + std::to_string(device_count())});
  expect_parts(message_of<ValueError>([] { PmapSharding::make_default({4}, 1); }),
               {"no dimension 1", "[4]"});
}

TEST(Sharding, DevicesAndClasses) {
  const NamedSharding s = named(P("x"));
  EXPECT_EQ(s.num_devices(), 8);
  EXPECT_EQ(s.device_set().size(), 8u);
  EXPECT_TRUE(s.is_fully_addressable());
  std::vector<Device> two = some_devices(2);
  two[1].process_index = 1;
  const NamedSharding half(Mesh(two, "x"), P("x"));
  EXPECT_FALSE(half.is_fully_addressable());
  EXPECT_EQ(half.addressable_devices().size(), 1u);
  EXPECT_EQ(half.addressable_devices_indices_map({4}).size(), 1u);
  EXPECT_EQ(half.devices_indices_map({4}).size(), 2u);

  const Sharding any = s;
  EXPECT_TRUE(NamedSharding::is(any));
  EXPECT_TRUE(NamedSharding(any).spec() == P("x"));
  EXPECT_FALSE(SingleDeviceSharding::is(any));
  expect_parts(message_of<TypeError>([&] { SingleDeviceSharding bad(any); }),
               {"sharding_test.cc:", "SingleDeviceSharding", "NamedSharding(mesh="});
  const Sharding none;
  EXPECT_FALSE(none.valid());
  EXPECT_THROW(none.num_devices(), ValueError);
  EXPECT_EQ(none.to_string(), "Sharding()");
  EXPECT_TRUE(none == Sharding());
  EXPECT_FALSE(none == any);
  EXPECT_THROW(NamedSharding bad(none), TypeError);
}

TEST(Sharding, Gspmd) {
  const GSPMDSharding s(some_devices(4), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(s.shard_shape({4, 3}), (Dims{2, 3}));
  // Trailing unsplit dims may be there or not.
  EXPECT_EQ(s.shard_shape({4}), (Dims{2}));
  EXPECT_EQ(s.shard_shape({4, 3, 5}), (Dims{2, 3, 5}));
  EXPECT_EQ(s.to_hlo_text(3), "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(replica_ids(s, {4, 3}), (Dims{0, 1, 0, 1}));
  expect_parts(message_of<ShardingError>([&] { s.shard_shape({}); }),
               {"rank at least 1", "rank 0"});
  const std::string m = message_of<ParseError>([] { GSPMDSharding(some_devices(4), "{devices"); });
  expect_parts(m, {"sharding_test.cc:", "{devices", "column"});
  expect_parts(
      message_of<ShardingError>([] { GSPMDSharding(some_devices(4), "{devices=[2]<=[2]}"); }),
      {"is for 2 devices and there are 4"});
  const GSPMDSharding maximal(some_devices(4), "{maximal device=2}");
  // One device, which holds all: its own facts agree, and those of SingleDeviceSharding.
  EXPECT_EQ(maximal.num_devices(), 1);
  EXPECT_EQ(maximal.device_set(), (std::set<Device>{some_devices(4)[2]}));
  EXPECT_TRUE(maximal.is_fully_replicated());
  EXPECT_TRUE(maximal.is_equivalent_to(SingleDeviceSharding(some_devices(4)[2]), 1));
  EXPECT_FALSE(maximal.is_equivalent_to(SingleDeviceSharding(some_devices(4)[1]), 1));
  EXPECT_EQ(maximal.shard_shape({3}), (Dims{3}));
  EXPECT_EQ(maximal.devices_indices_map({3}).size(), 1u);
  EXPECT_EQ(maximal.devices_indices_map({3}).begin()->first.id, 2);
  EXPECT_THROW(GSPMDSharding({}, "{replicated}"), ValueError);
}

TEST(Sharding, Positional) {
  const PositionalSharding s(some_devices(8));
  EXPECT_EQ(s.shape(), (Dims{8}));
  EXPECT_EQ(s.shard_shape({16}), (Dims{2}));
  const PositionalSharding grid = s.reshape({4, -1});
  EXPECT_EQ(grid.shape(), (Dims{4, 2}));
  EXPECT_EQ(grid.to_hlo_text(2), "{devices=[4,2]<=[8]}");
  EXPECT_EQ(grid.transpose().to_hlo_text(2), "{devices=[2,4]<=[4,2]T(1,0)}");
  EXPECT_EQ(grid.transpose({1, 0}).shape(), (Dims{2, 4}));
  const PositionalSharding rows = grid.replicate(1);
  EXPECT_EQ(rows.shape(), (Dims{4, 1}));
  EXPECT_EQ(rows.to_hlo_text(2), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  EXPECT_TRUE(rows.is_equivalent_to(named(P("x")), 2));
  const PositionalSharding columns = grid.replicate(0);
  EXPECT_TRUE(columns.is_equivalent_to(named(P(nullptr, "y")), 2));
  EXPECT_EQ(columns.to_string(),
            "PositionalSharding([[{cpu:0, cpu:2, cpu:4, cpu:6} {cpu:1, cpu:3, cpu:5, cpu:7}]], "
            "memory_kind=device, shape=[1,2])");
  EXPECT_EQ(grid.replicate(-1, false).shape(), (Dims{4}));
  EXPECT_EQ(grid.replicate().shape(), (Dims{1, 1}));
  EXPECT_TRUE(grid.replicate().is_fully_replicated());
  EXPECT_EQ(grid.replicate({}, false).shape(), (Dims{}));
  EXPECT_EQ(grid.replicate().shard_shape({3, 5, 7}), (Dims{3, 5, 7}));
  EXPECT_EQ(rows.replicate(0).num_devices(), 8);
  EXPECT_TRUE(grid == s.reshape({4, 2}));
  EXPECT_FALSE(grid == s);
  expect_parts(message_of<ShardingError>([&] {
                 s.reshape({3, 2});
               }),
               {"sharding_test.cc:", "[8]", "[3,2]", "8"});
  EXPECT_THROW(s.reshape({3, -1}), ShardingError);
  EXPECT_THROW(s.reshape({-1, -1}), ShardingError);
  EXPECT_THROW(s.reshape({0, -1}), ShardingError);
  EXPECT_THROW(grid.transpose({0, 0}), ShardingError);
  EXPECT_THROW(grid.replicate(2), ShardingError);
  expect_parts(message_of<ShardingError>([&] { grid.shard_shape({8}); }),
               {"values of rank 2", "rank 1"});
  EXPECT_THROW(PositionalSharding(devices_of({1, 1})), ValueError);
}

}  // namespace
}  // namespace tessera
