// SPDX-License-Identifier: Apache-2.0
// Shardings as programs state them, and the axes of orders of devices.
#include <tessera/sharding/op_sharding.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include <tessera/sharding.h>
#include <tessera/sharding/abstract_mesh.h>

#include "tests/sharding/random_case.h"
#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;
using Numbers = std::vector<std::int64_t>;

Mesh xy_mesh() { return Mesh(some_devices(8), {4, 2}, {"x", "y"}); }

std::vector<P> specs_of(const std::string& text, const Mesh& mesh) {
  std::vector<P> out;
  for (const auto& p : parse_flatten_op_sharding(OpSharding::from_text(text), mesh)) {
    out.push_back(p.get_partition_spec());
  }
  return out;
}

TEST(OpShardings, TextAndFields) {
  const OpSharding s = OpSharding::from_text("{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}");
  EXPECT_EQ(s.type, OpSharding::Type::other);
  EXPECT_EQ(s.tile_assignment_dimensions, (Numbers{2, 1, 2}));
  EXPECT_EQ(s.tile_assignment_devices, (Numbers{0, 2, 1, 3}));
  EXPECT_TRUE(s.replicate_on_last_tile_dim());
  EXPECT_EQ(s.to_string(), "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  for (const char* text : {"{replicated}", "{maximal device=3}", "{manual}", "{unknown}",
                           "{{devices=[2]<=[2]}, {replicated}}", "{}",
                           "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}"}) {
    EXPECT_EQ(OpSharding::from_text(text).to_string(), text);
    EXPECT_TRUE(OpSharding::from_text(OpSharding::from_text(text).to_string()) ==
                OpSharding::from_text(text));
  }
  expect_parts(message_of<ParseError>([] { (void)OpSharding::from_text("{devices=[2]"); }),
               {"op_sharding_test.cc:", "sharding"});
  OpSharding wrong = s;
  wrong.tile_assignment_devices.pop_back();
  expect_parts(message_of<ShardingError>([&] { (void)wrong.to_string(); }),
               {"op_sharding_test.cc:", "tiles [2,1,2]", "lists 3 devices"});
  wrong = s;
  wrong.tile_assignment_devices[1] = 0;
  expect_parts(message_of<ShardingError>([&] { (void)wrong.to_string(); }),
               {"names device 0 twice"});
}

TEST(OpShardings, Behaviour_067_TuplesGiveASpecPerElement) {
  const Mesh mesh = xy_mesh();
  EXPECT_TRUE(specs_of("{{devices=[4,2]<=[8]}, {replicated}, "
                       "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}}",
                       mesh) == (std::vector<P>{P("x", "y"), P(), P(nullptr, "y")}));
  EXPECT_TRUE(specs_of("{}", mesh).empty());
  EXPECT_FALSE(OpSharding::from_text("{{replicated}, {manual}}") ==
               OpSharding::from_text("{{manual}, {replicated}}"));
  // Nested tuples are flat.
  OpSharding outer;
  outer.type = OpSharding::Type::tuple;
  outer.tuple_shardings = {OpSharding::from_text("{{replicated}, {devices=[8]<=[8]}}"),
                           get_aval_sharding_proto(P("y"), mesh, 1)};
  const auto specs = parse_flatten_op_sharding(outer, mesh);
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_TRUE(specs[1].get_partition_spec() == P(axes("x", "y")));
  EXPECT_TRUE(specs[2].get_partition_spec() == P("y"));
  EXPECT_EQ(OpSharding::from_text(outer.to_string()).tuple_shardings.size(), 3u);
}

TEST(OpShardings, SubgroupsOfEachKind) {
  const Mesh mesh(some_devices(8), {2, 2, 2}, {"a", "b", "c"});
  const auto manual = parse_flatten_op_sharding(
      OpSharding::from_text("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}"), mesh);
  ASSERT_EQ(manual.size(), 1u);
  EXPECT_TRUE(manual[0].get_partition_spec() == P("a"));
  EXPECT_EQ(manual[0].manual_axes(), (std::vector<std::string>{"b"}));
  const auto sum = parse_flatten_op_sharding(
      OpSharding::from_text("{devices=[1,2,2,2]<=[8] last_tile_dims={manual, unreduced}}"), mesh);
  EXPECT_TRUE(sum[0].get_partition_spec() == P(nullptr, "a").with_unreduced({"c"}));
  EXPECT_EQ(sum[0].manual_axes(), (std::vector<std::string>{"b"}));
  const auto all = parse_flatten_op_sharding(OpSharding::from_text("{manual}"), mesh);
  EXPECT_TRUE(all[0].get_partition_spec() == P());
  EXPECT_EQ(all[0].manual_axes(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(OpShardings, Behaviour_066_ShardingsThatNoSpecDescribes) {
  const Mesh mesh = xy_mesh();
  expect_parts(message_of<NotImplementedError>(
                   [&] { (void)specs_of("{devices=[8]0,1,2,3,4,5,7,6}", mesh); }),
               {"op_sharding_test.cc:", "devices=[8]0,1,2,3,4,5,7,6", "Mesh('x': 4, 'y': 2",
                "no order of the mesh's axes"});
  expect_parts(
      message_of<NotImplementedError>([&] { (void)specs_of("{devices=[2,4]<=[8]}", mesh); }),
      {"{devices=[2,4]<=[8]}", "part of an axis"});
  expect_parts(message_of<NotImplementedError>([&] { (void)specs_of("{maximal device=3}", mesh); }),
               {"{maximal device=3}", "entire value on one device"});
  expect_parts(message_of<NotImplementedError>([&] { (void)specs_of("{unknown}", mesh); }),
               {"{unknown}", "doesn't state"});
  expect_parts(message_of<ShardingError>([&] { (void)specs_of("{devices=[4]<=[4]}", mesh); }),
               {"op_sharding_test.cc:", "is for 4 devices and there are 8"});
  expect_parts(message_of<ShardingError>([&] { (void)specs_of("{replicated}", Mesh()); }),
               {"needs a mesh with axes"});
}

TEST(OpShardings, OfSpecs) {
  const Mesh mesh = xy_mesh();
  EXPECT_EQ(get_aval_sharding_proto(P(nullptr, "y"), mesh, 2).to_string(),
            "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(get_aval_sharding_proto(P(), mesh, 2).type, OpSharding::Type::replicated);
  EXPECT_EQ(get_aval_sharding_proto(P("x").with_unreduced({"y"}), mesh, 1).to_string(),
            "{devices=[4,2]<=[8] last_tile_dims={unreduced}}");
  expect_parts(
      message_of<NotImplementedError>([&] {
        (void)get_aval_sharding_proto(P("x").with_unreduced({"y"}, UnreducedKind::max), mesh, 1);
      }),
      {"op_sharding_test.cc:", "unreduced_kind=max", "joined by a max", "UnreducedKind::sum"});
  expect_parts(
      message_of<ShardingError>([&] { (void)get_aval_sharding_proto(P("x", "y"), mesh, 1); }),
      {"op_sharding_test.cc:", "rank at least 2", "rank 1"});
  expect_parts(message_of<ShardingError>([&] { (void)get_aval_sharding_proto(P("z"), mesh, 1); }),
               {"'z'"});
}

TEST(OpShardings, Behaviour_065_RandomSpecsOnFiveAxesAndBack) {
  test::RandomCase random("RandomSpecsOnFiveAxesAndBack");
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const AbstractMesh mesh({2, 3, 4, 7, 4}, names);
  for (int trial = 0; trial < 10000; ++trial) {
    std::vector<std::string> free = names;
    random.shuffle(free);
    std::vector<SpecEntry> entries;
    for (int d = 0; d < 5; ++d) {
      std::vector<std::string> of_dim;
      while (!free.empty() && random.chance(40)) {
        of_dim.push_back(free.back());
        free.pop_back();
      }
      entries.emplace_back(of_dim);
    }
    const P spec = P::from_entries(entries);
    SCOPED_TRACE("seed " + std::to_string(random.seed()) + ": " + spec.to_string());
    const OpSharding stated = get_aval_sharding_proto(spec, mesh, 5);
    const auto back = parse_flatten_op_sharding(stated, mesh);
    ASSERT_EQ(back.size(), 1u);
    ASSERT_TRUE(back[0].get_partition_spec() ==
                get_single_pspec(ParsedPartitionSpec::from_user_input(spec, "spec")));
    // The axes of the dims come first in the order of the devices.
    if (trial % 10 != 0 || stated.type != OpSharding::Type::other) continue;
    const auto order = unflatten_array(mesh.shape(), stated.tile_assignment_devices);
    const ArrayMapping mapping = get_array_mapping(spec);
    ASSERT_GE(order.size(), mapping.size());
    for (std::size_t i = 0; i < mapping.size(); ++i) ASSERT_EQ(order[i], mapping[i].first);
  }
}

/// What JAX computes for np.arange(24).reshape(2, 3, 4).transpose(perm).
struct Order {
  std::vector<int> perm;
  std::vector<StridedDim> superdims, dims;
  std::vector<std::string> names;
};

TEST(DeviceOrders, AsJaxFactorsThem) {
  const Numbers sizes{2, 3, 4};
  EXPECT_EQ(strides_for_sizes({2, 3, 4, 7, 4}), (Numbers{336, 112, 28, 4, 1}));
  const std::vector<Order> orders{
      {{0, 1, 2}, {{24, 1}}, {{2, 12}, {3, 4}, {4, 1}}, {"x", "y", "z"}},
      {{0, 2, 1}, {{3, 4}, {4, 1}, {2, 12}}, {{2, 12}, {4, 1}, {3, 4}}, {"x", "z", "y"}},
      {{1, 0, 2}, {{4, 1}, {2, 12}, {3, 4}}, {{3, 4}, {2, 12}, {4, 1}}, {"y", "x", "z"}},
      {{1, 2, 0}, {{2, 12}, {12, 1}}, {{3, 4}, {4, 1}, {2, 12}}, {"y", "z", "x"}},
      {{2, 0, 1}, {{6, 4}, {4, 1}}, {{4, 1}, {2, 12}, {3, 4}}, {"z", "x", "y"}},
      {{2, 1, 0}, {{2, 12}, {3, 4}, {4, 1}}, {{4, 1}, {3, 4}, {2, 12}}, {"z", "y", "x"}}};
  for (const Order& o : orders) {
    const Numbers strides = strides_for_sizes(sizes);
    Numbers list;
    const auto size = [&](int k) { return sizes[std::size_t(o.perm[std::size_t(k)])]; };
    const auto stride = [&](int k) { return strides[std::size_t(o.perm[std::size_t(k)])]; };
    for (std::int64_t i = 0; i < size(0); ++i) {
      for (std::int64_t j = 0; j < size(1); ++j) {
        for (std::int64_t k = 0; k < size(2); ++k) {
          list.push_back(i * stride(0) + j * stride(1) + k * stride(2));
        }
      }
    }
    EXPECT_EQ(unflatten_superdims(list), o.superdims);
    EXPECT_EQ(explode_superdims(sizes, o.superdims), o.dims);
    EXPECT_EQ(unflatten_array({{"x", 2}, {"one", 1}, {"y", 3}, {"z", 4}}, list), o.names);
  }
  EXPECT_TRUE(unflatten_superdims({0}).empty());
  EXPECT_TRUE(unflatten_array({{"x", 1}}, {0}).empty());
}

TEST(DeviceOrders, Errors) {
  expect_parts(message_of<ValueError>([] {
                 (void)strides_for_sizes({2, 0});
               }),
               {"op_sharding_test.cc:", "[2,0]"});
  expect_parts(message_of<NotImplementedError>([] {
                 (void)unflatten_superdims({0, 2, 1});
               }),
               {"op_sharding_test.cc:", "[0,2,1]", "no transposition"});
  expect_parts(message_of<NotImplementedError>([] { (void)unflatten_superdims({}); }),
               {"no transposition"});
  expect_parts(message_of<NotImplementedError>([] {
                 (void)unflatten_superdims({1, 0});
               }),
               {"[1,0]"});
  expect_parts(message_of<NotImplementedError>([] {
                 (void)explode_superdims({2, 4}, {{2, 1}, {4, 2}});
               }),
               {"[2 at stride 1, 4 at stride 2]", "sizes [2,4]"});
  expect_parts(message_of<ValueError>([] {
                 (void)unflatten_array({{"x", 4}}, {0, 1, 2});
               }),
               {"have 4 devices", "[0,1,2]", "isn't a permutation"});
  expect_parts(message_of<NotImplementedError>([] {
                 (void)unflatten_array({{"x", 2}, {"y", 4}}, {0, 2, 4, 6, 1, 3, 5, 7});
               }),
               {"isn't made of dims of an array with sizes [2,4]"});
}

}  // namespace
}  // namespace tessera
