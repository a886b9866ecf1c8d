// SPDX-License-Identifier: Apache-2.0
// Logical meshes, shardings by axes, and sdy's texts of them.
#include "src/sharding/axes/tensor_sharding.h"

#include <gtest/gtest.h>

#include "src/sharding/axes/sdy_text.h"

namespace tessera {
namespace {

const MeshRef kMesh = make_logical_mesh({{"x", 2}, {"y", 4}, {"z", 3}});

TEST(LogicalMesh, CoordinatesFollowTheDeviceOrder) {
  EXPECT_EQ(kMesh->num_devices(), 24);
  EXPECT_EQ(kMesh->strides(), (Dims{12, 3, 1}));
  EXPECT_EQ(kMesh->coordinate(17, 0), 1);
  EXPECT_EQ(kMesh->coordinate(17, 1), 1);
  EXPECT_EQ(kMesh->coordinate(17, 2), 2);
  const MeshRef m = make_logical_mesh({{"x", 2}, {"y", 2}}, {2, 0, 3, 1});
  EXPECT_EQ(m->device_at(2), 3);
  EXPECT_EQ(m->position_of(1), 3);
  EXPECT_EQ(m->coordinate(0, 0), 0);
  EXPECT_EQ(m->coordinate(0, 1), 1);
  EXPECT_EQ(kMesh->find("y"), 1);
  EXPECT_EQ(kMesh->find("w"), -1);
}

TEST(LogicalMesh, RefusesWrongAxes) {
  EXPECT_THROW(make_logical_mesh({{"x", 2}, {"x", 2}}), ShardingError);
  EXPECT_THROW(make_logical_mesh({{"x", 0}}), ShardingError);
  EXPECT_THROW(make_logical_mesh({{"x", INT64_MAX}, {"y", 2}}), ShardingError);
  std::vector<std::pair<std::string, std::int64_t>> many;
  for (int i = 0; i < 100000; ++i) many.emplace_back("x" + std::to_string(i), 1);
  EXPECT_THROW(make_logical_mesh(many), ShardingError);
  EXPECT_THROW(make_logical_mesh({{"x", 2}}, {0, 1, 2}), ShardingError);
  // The plain order has one form.
  EXPECT_EQ(*make_logical_mesh({{"x", 2}}, {0, 1}), *make_logical_mesh({{"x", 2}}));
}

TEST(LogicalMesh, Refinements) {
  const MeshRef fine = refine(kMesh, {{}, {2, 2}, {}});
  EXPECT_EQ(fine->axes[1].to_string(), "y:(1)2");
  EXPECT_EQ(fine->axes[2].to_string(), "y:(2)2");
  EXPECT_EQ(fine->find("y"), -1);
  EXPECT_EQ(fine->find("z"), 3);
  EXPECT_TRUE(same_mesh(kMesh, fine));
  EXPECT_FALSE(*kMesh == *fine);
  EXPECT_EQ(*common_refinement(kMesh, fine), *fine);

  const MeshRef big = make_logical_mesh({{"x", 12}});
  const MeshRef a = refine(big, {{2, 6}}), b = refine(big, {{6, 2}}), c = refine(big, {{3, 4}});
  const MeshRef ab = common_refinement(a, b);
  ASSERT_NE(ab, nullptr);
  EXPECT_EQ(ab->axes.size(), 3u);
  EXPECT_EQ(ab->axes[1].to_string(), "x:(2)3");
  EXPECT_EQ(common_refinement(a, c), nullptr);
  EXPECT_EQ(refine_to_primes(big)->axes.size(), 3u);
  EXPECT_EQ(common_refinement(kMesh, big), nullptr);
  EXPECT_FALSE(same_mesh(make_logical_mesh({{"x", 2}}, {1, 0}), make_logical_mesh({{"x", 2}})));
}

TEST(TensorSharding, ShardsShapesAndCoordinates) {
  TensorSharding s = TensorSharding::replicated_on(kMesh, 3);
  EXPECT_TRUE(s.is_replicated());
  EXPECT_EQ(s.to_spec_string(), "replicated");
  s.dims[0].axes = {2, 0};
  s.dims[2].axes = {1};
  EXPECT_FALSE(s.is_replicated());
  EXPECT_EQ(s.shards(), (Dims{6, 1, 4}));
  EXPECT_EQ(s.shard_dims({13, 5, 8}), (Dims{3, 5, 2}));
  // Device 17 has x=1, y=1, z=2; z is the major one on dim 0.
  EXPECT_EQ(s.shard_coordinates(17), (Dims{5, 0, 1}));
  EXPECT_TRUE(s.uses_axis(2));
  EXPECT_EQ(s.to_spec_string(), "P((\"z\", \"x\"), None, \"y\")");
  s.unreduced = {};
  TensorSharding sum = TensorSharding::replicated_on(kMesh, 1);
  sum.unreduced = {1};
  EXPECT_FALSE(sum.is_replicated());
  EXPECT_EQ(sum.to_spec_string(), "P(None, unreduced={\"y\"})");
}

TEST(TensorSharding, OpenDims) {
  TensorSharding s = TensorSharding::open_on(kMesh, 2);
  EXPECT_TRUE(s.fully_open());
  EXPECT_EQ(s.to_string(), "#sdy.sharding<@mesh, [{?}, {?}]>");
  s.dims[0].axes = {0};
  s.dims[0].priority = 2;
  EXPECT_FALSE(s.fully_open());
  EXPECT_EQ(s.to_string(), "#sdy.sharding<@mesh, [{\"x\", ?}p2, {?}]>");
  EXPECT_EQ(s.closed().to_string(), "#sdy.sharding<@mesh, [{\"x\"}, {}]>");
  EXPECT_TRUE(s.same_placement(s.closed()));
  EXPECT_FALSE(s == s.closed());
}

TEST(TensorSharding, PlacementDoesNotDependOnTheRefinement) {
  const MeshRef big = make_logical_mesh({{"x", 6}, {"one", 1}});
  TensorSharding a = TensorSharding::replicated_on(refine(big, {{2, 3}, {}}), 1);
  a.dims[0].axes = {0, 1};
  TensorSharding b = TensorSharding::replicated_on(refine(big, {{3, 2}, {}}), 1);
  b.dims[0].axes = {0, 1, 2};
  EXPECT_TRUE(a.same_placement(b));
  b.dims[0].axes = {1, 0};
  EXPECT_FALSE(a.same_placement(b));
  EXPECT_EQ(a.to_spec_string(), "P(\"x\")");
  EXPECT_EQ(b.to_string(), "#sdy.sharding<@mesh, [{\"x\":(3)2, \"x\":(1)3}]>");
  TensorSharding none = TensorSharding::replicated_on(nullptr, 1);
  TensorSharding one = TensorSharding::replicated_on(big, 1);
  one.dims[0].axes = {1};
  EXPECT_TRUE(none.same_placement(one));
  EXPECT_EQ(none.on(big).mesh, big);
}

TEST(SdyText, RoundTrips) {
  for (const char* text :
       {"#sdy.sharding<@mesh, [{\"x\", \"y\":(1)2}, {\"z\", ?}p1, {?}, {}]>",
        "#sdy.sharding<@mesh, [{\"y\":(2)2}, {\"y\":(1)2, ?}], replicated={\"z\"}, "
        "unreduced={\"x\"}>",
        "#sdy.sharding<@mesh, []>", "#sdy.sharding<@mesh, [], unreduced={\"x\", \"y\":(2)2}>",
        "#sdy.sharding<@mesh, [{}], manual={\"x\", \"y\"}>"}) {
    const TensorSharding s = parse_sdy_sharding(text, kMesh);
    EXPECT_EQ(s.to_string(), text);
    EXPECT_TRUE(same_mesh(s.mesh, kMesh)) << text;
    EXPECT_EQ(parse_sdy_sharding(s.to_string(), kMesh), s);
  }
  const TensorSharding s =
      parse_sdy_sharding("<@m, [{\"x\", \"y\":(1)2}, {\"z\", ?}p1, {?}, {}]>", {{"m", kMesh}});
  EXPECT_EQ(s.dims[0].axes, (IndexList{0, 1}));
  EXPECT_EQ(s.dims[1].axes, (IndexList{3}));
  EXPECT_EQ(s.dims[1].priority, 1);
  EXPECT_TRUE(s.dims[1].open);
  EXPECT_TRUE(s.dims[2].open);
  EXPECT_FALSE(s.dims[3].open);
}

TEST(SdyText, MeshesInlineListsAndSingleDevices) {
  const MeshRef m = parse_sdy_mesh("#sdy.mesh<[\"a\"=2, \"b\"=2], device_ids=[0, 2, 1, 3]>", "m");
  EXPECT_EQ(m->name, "m");
  EXPECT_EQ(m->device_ids, (Dims{0, 2, 1, 3}));
  EXPECT_EQ(parse_sdy_mesh("<[\"a\"=2]>")->axes[0].name, "a");
  const TensorSharding inl =
      parse_sdy_sharding("#sdy.sharding<mesh<[\"x\"=2]>, [{\"x\"}]>", MeshTable{});
  EXPECT_EQ(inl.shards(0), 2);
  for (const char* none : {"<mesh<[]>, [{}, {?}]>", "#sdy.sharding<#sdy.mesh<[]>, [{}, {?}]>"}) {
    const TensorSharding s = parse_sdy_sharding(none, MeshTable{});
    EXPECT_EQ(s.kind, TensorSharding::Kind::axes) << none;
    EXPECT_EQ(s.mesh, nullptr) << none;
    EXPECT_EQ(s.to_string(), "#sdy.sharding<@empty_mesh, [{}, {?}]>");
  }
  const MeshTable table{{"mesh", kMesh}, {"one", parse_sdy_mesh("<[], device_ids=[3]>", "one")}};
  const TensorSharding one = parse_sdy_sharding("<@one, []>", table);
  EXPECT_EQ(one.kind, TensorSharding::Kind::maximal);
  EXPECT_EQ(one.device, 3);
  for (const char* more : {"<@one, [{}, {}]>", "<@one, [], unreduced={\"x\"}>"}) {
    EXPECT_THROW(parse_sdy_sharding(more, table), ParseError) << more;
  }
  EXPECT_EQ(parse_sdy_sharding(one.to_string(), table).device, 3);
  const auto list = parse_sdy_sharding_per_value(
      "#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>, <@mesh, [{?}, {}]>]>", table);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].to_string(), "#sdy.sharding<@mesh, [{?}, {}]>");
  EXPECT_EQ(parse_sdy_sharding_per_value("[<@mesh, [{\"x\"}]>]", table).size(), 1u);
}

TEST(SdyText, RefusalsNameThePlaceAndTheReason) {
  const MeshTable table{{"mesh", kMesh}};
  auto why = [&](const char* text) -> std::string {
    try {
      parse_sdy_sharding(text, table);
    } catch (const ParseError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(why("<@other, [{}]>").find("there is no mesh @other; there are @mesh"),
            std::string::npos);
  EXPECT_NE(
      why("<@mesh, [{\"w\"}]>").find("axis 'w' is not in mesh @mesh, which has 'x', 'y', 'z'"),
      std::string::npos);
  EXPECT_NE(why("<@mesh, [{\"x\"}, {\"x\"}]>").find("stands twice"), std::string::npos);
  EXPECT_NE(why("<@mesh, [{\"y\"}, {\"y\":(1)2}]>").find("stands twice"), std::string::npos);
  EXPECT_NE(why("<@mesh, [{\"y\":(1)3}]>").find("doesn't divide"), std::string::npos);
  EXPECT_NE(why("<@mesh, [{}p1]>").find("no priority"), std::string::npos);
  EXPECT_NE(why("<@mesh, [{}]").find("column 13: expected '>'"), std::string::npos)
      << why("<@mesh, [{}]");
  EXPECT_NE(why("<@mesh, [{}], unreduced=mean{\"x\"}>").find("sum, max or min"), std::string::npos);
}

}  // namespace
}  // namespace tessera
