// SPDX-License-Identifier: Apache-2.0
// Partition specs: entries, equality, text.
#include <tessera/partition_spec.h>

#include <gtest/gtest.h>

#include "src/sharding/api/lowering.h"
#include "src/sharding/axes/tiling.h"
#include "tests/sharding/sharding_testing.h"

namespace tessera {
namespace {

using test::expect_parts;
using test::message_of;
using test::some_devices;

const Mesh& mesh() {
  static const Mesh m(some_devices(8), {4, 2}, {"x", "y"});
  return m;
}

TEST(PartitionSpec, Behaviour_050_TextsAreReadBack) {
  for (const PartitionSpec& spec :
       {P(), P("x"), P(nullptr, axes("x", "y"), UNCONSTRAINED), P(nullptr),
        P("x").with_unreduced({"y"}), P().with_reduced({"x", "y"}),
        P(nullptr).with_unreduced({"a"}).with_reduced({"b"})}) {
    EXPECT_TRUE(PartitionSpec::parse(spec.to_string()) == spec) << spec.to_string();
  }
  EXPECT_TRUE(PartitionSpec::parse(" P( \"data\", None,('x', 'y') ) ") ==
              P("data", nullptr, axes("x", "y")));
  for (const char* text : {"", "P", "P(x)", "P('x'", "P('x)", "P('x') y", "Q('x')", "P(unreduced)",
                           "P(unreduced={'x)", "P(('x')", "P(unreduced={'x'}", "P('x',,)"}) {
    expect_parts(message_of<ParseError>([&] { (void)PartitionSpec::parse(text); }),
                 {"partition_spec_test.cc:", "spec '", "character"});
  }
  expect_parts(
      message_of<ValueError>([] { (void)PartitionSpec::parse("P('x', unreduced={'x'})"); }),
      {"partition_spec_test.cc:", "split", "unreduced"});
}

TEST(PartitionSpec, Behaviour_031_ListsOfOneOrNoneCollapse) {
  EXPECT_TRUE(P(nullptr, "x") == P(std::vector<std::string>{}, "x"));
  EXPECT_TRUE(P(std::nullopt, "x") == P(nullptr, "x"));
  EXPECT_TRUE(P(axes("x")) == P("x"));
  EXPECT_TRUE(P(std::vector<std::string>{"x"}) == P("x"));
  EXPECT_FALSE(P(axes("x", "y")) == P(axes("y", "x")));
  EXPECT_TRUE(P(axes()) == P(nullptr));
}

TEST(PartitionSpec, Behaviour_032_TrailingNonesCountInEqualityOnly) {
  EXPECT_FALSE(P() == P(nullptr));
  EXPECT_FALSE(P(nullptr) == P(nullptr, nullptr));
  const NamedSharding a(mesh(), P("x")), b(mesh(), P("x", nullptr));
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a.is_equivalent_to(b, 2));
  EXPECT_TRUE(NamedSharding(mesh(), P()).is_equivalent_to(NamedSharding(mesh(), P(nullptr)), 1));
}

TEST(PartitionSpec, Behaviour_033_EqualsTheListOfItsEntries) {
  EXPECT_TRUE(P("x", nullptr) == (std::vector<SpecEntry>{"x", nullptr}));
  EXPECT_FALSE(P("x") == (std::vector<SpecEntry>{"x", nullptr}));
}

TEST(PartitionSpec, Behaviour_034_IndexAndCount) {
  const P p("x", nullptr, axes("y", "z"), nullptr);
  EXPECT_EQ(p.index("x"), 0u);
  EXPECT_EQ(p.index(nullptr), 1u);
  EXPECT_EQ(p.index(axes("y", "z")), 2u);
  EXPECT_EQ(p.count(nullptr), 2u);
  EXPECT_EQ(p.count("y"), 0u);
  expect_parts(message_of<ValueError>([&] { (void)p.index("y"); }),
               {"partition_spec_test.cc:", "'y'", "PartitionSpec('x', None, ('y', 'z'), None)"});
  EXPECT_EQ(p.size(), 4u);
  EXPECT_TRUE(p[2] == SpecEntry(axes("y", "z")));
  expect_parts(message_of<ValueError>([&] { (void)p[4]; }), {"entry 4", "which has 4"});
  std::size_t entries = 0;
  for (const SpecEntry& e : p) entries += !e.is_none();
  EXPECT_EQ(entries, 2u);
}

TEST(PartitionSpec, Behaviour_037_AnAxisTwice) {
  const std::string m =
      message_of<DuplicateSpecError>([] { NamedSharding(mesh(), P("y", axes("y", "x"), "x")); });
  expect_parts(m, {"partition_spec_test.cc:", "PartitionSpec('y', ('y', 'x'), 'x')", "'x', 'y'",
                   "NamedSharding"});
  expect_parts(message_of<DuplicateSpecError>([] { NamedSharding(mesh(), P(axes("x", "x"))); }),
               {"PartitionSpec(('x', 'x'))", "'x' more than once"});
}

TEST(PartitionSpec, Behaviour_038_AnAxisThatTheMeshLacks) {
  expect_parts(message_of<ShardingError>([] { NamedSharding(mesh(), P(nullptr, "data")); }),
               {"partition_spec_test.cc:", "'data'", "PartitionSpec(None, 'data')", "'x', 'y'"});
  expect_parts(message_of<ShardingError>([] { NamedSharding(Mesh(), P("x")); }),
               {"'x'", "the mesh is empty"});
}

TEST(PartitionSpec, Behaviour_039_UnconstrainedNeedsAnAutoAxis) {
  const Mesh manual(some_devices(2), {2}, {"x"}, {AxisType::Manual});
  expect_parts(message_of<ShardingError>([&] { NamedSharding(manual, P(UNCONSTRAINED)); }),
               {"PartitionSpec(UNCONSTRAINED)", "axis_types=(Manual,)"});
  EXPECT_NO_THROW(NamedSharding(mesh(), P(UNCONSTRAINED, "x")));
}

TEST(PartitionSpec, Behaviour_040_Text) {
  EXPECT_EQ(P("a").with_unreduced({"c"}).to_string(), "PartitionSpec('a', unreduced={'c'})");
  EXPECT_EQ(P().with_unreduced({"d", "c"}).to_string(), "PartitionSpec(unreduced={'c', 'd'})");
  EXPECT_EQ(P("a").with_unreduced({"c"}).with_reduced({"d"}).to_string(),
            "PartitionSpec('a', unreduced={'c'}, reduced={'d'})");
  EXPECT_EQ(P().with_reduced({"d"}).to_string(), "PartitionSpec(reduced={'d'})");
  EXPECT_EQ(P("x", nullptr, axes("y", "z"), UNCONSTRAINED).to_string(),
            "PartitionSpec('x', None, ('y', 'z'), UNCONSTRAINED)");
  EXPECT_EQ(P().to_string(), "PartitionSpec()");
}

TEST(PartitionSpec, Behaviour_041_AnAxisCantSplitAndBeUnreduced) {
  expect_parts(message_of<ValueError>([] {
                 P("a", axes("b", "c")).with_unreduced({"d", "c"});
               }),
               {"partition_spec_test.cc:", "PartitionSpec('a', ('b', 'c'))", "unreduced={'d', 'c'}",
                "'c' in both"});
}

TEST(PartitionSpec, Behaviour_041_ReducedAxesAreOthers) {
  expect_parts(message_of<ValueError>([] { P("a").with_reduced({"a"}); }),
               {"split a dimension and be reduced", "'a' in both"});
  expect_parts(message_of<ValueError>([] {
                 P().with_unreduced({"a"}).with_reduced({"a", "b"});
               }),
               {"both reduced and unreduced", "reduced={'a', 'b'}", "'a' in both"});
  EXPECT_FALSE(P("a").with_reduced({"b"}) == P("a").with_unreduced({"b"}));
  expect_parts(message_of<ShardingError>([] { NamedSharding(mesh(), P().with_reduced({"w"})); }),
               {"'w'", "'x', 'y'"});
}

TEST(PartitionSpec, Behaviour_042_UnreducedAxesHaveNamesAndStandOnce) {
  expect_parts(message_of<ValueError>([] { P("a").with_unreduced({""}); }), {"has no name"});
  expect_parts(message_of<ValueError>([] {
                 P("a").with_unreduced({"b", "b"});
               }),
               {"'b' stands twice"});
  EXPECT_TRUE(P("a").with_unreduced({"b", "c"}) == P("a").with_unreduced({"c", "b"}));
  EXPECT_FALSE(P("a").with_unreduced({"b"}) == P("a"));
}

TEST(PartitionSpec, Behaviour_045_Sums) {
  EXPECT_TRUE(P("a") + P(nullptr, "b") == P("a", nullptr, "b"));
  EXPECT_TRUE(P("a").with_unreduced({"c"}) + P("b").with_unreduced({"d", "c"}) ==
              P("a", "b").with_unreduced({"c", "d"}));
  expect_parts(message_of<ValueError>([] { P("a").with_unreduced({"c"}) + P("c"); }), {"'c'"});
  expect_parts(message_of<ValueError>([] {
                 P("a").with_unreduced({"c"}) + P().with_unreduced({"d"}, UnreducedKind::max);
               }),
               {"one kind", "of kind sum and some of kind max"});
}

TEST(PartitionSpec, Behaviour_047_UnreducedAxesAreInTheMesh) {
  expect_parts(
      message_of<ShardingError>([] { NamedSharding(mesh(), P("x").with_unreduced({"w"})); }),
      {"'w'", "PartitionSpec('x', unreduced={'w'})", "'x', 'y'"});
}

TEST(PartitionSpec, Behaviour_043_KindsOfUnreducedValues) {
  EXPECT_EQ(P("x").unreduced_kind(), std::nullopt);
  EXPECT_EQ(P("x").with_unreduced({"y"}).unreduced_kind(), UnreducedKind::sum);
  EXPECT_TRUE(P("x").with_unreduced({"y"}, UnreducedKind::sum) == P("x").with_unreduced({"y"}));
  // Kind without axes.
  expect_parts(message_of<ValueError>([] { (void)P("x").with_unreduced({}, UnreducedKind::max); }),
               {"partition_spec_test.cc:", "unreduced_kind is max", "PartitionSpec('x')"});
  const PartitionSpec least = P("x").with_unreduced({"y"}, UnreducedKind::min);
  EXPECT_EQ(least.unreduced_kind(), UnreducedKind::min);
  EXPECT_FALSE(least == P("x").with_unreduced({"y"}));
  EXPECT_FALSE(least == P("x").with_unreduced({"y"}, UnreducedKind::max));
  EXPECT_EQ(least.with_unreduced({"y"}), P("x").with_unreduced({"y"}));
  EXPECT_EQ(least.with_unreduced({}), P("x"));
  EXPECT_EQ(NamedSharding(mesh(), least).spec(), least);
}

TEST(PartitionSpec, KindsAreTextAndAdded) {
  const PartitionSpec most = P("a").with_unreduced({"c"}, UnreducedKind::max).with_reduced({"d"});
  EXPECT_EQ(most.to_string(),
            "PartitionSpec('a', unreduced={'c'}, unreduced_kind=max, reduced={'d'})");
  EXPECT_EQ(PartitionSpec::parse(most.to_string()), most);
  EXPECT_EQ(PartitionSpec::parse("P(unreduced_kind=sum, unreduced={'c'})"),
            P().with_unreduced({"c"}));
  expect_parts(message_of<ParseError>(
                   [] { (void)PartitionSpec::parse("P(unreduced={'c'}, unreduced_kind=mean)"); }),
               {"expected sum, max or min"});
  expect_parts(message_of<ValueError>([] { (void)PartitionSpec::parse("P(unreduced_kind=max)"); }),
               {"unreduced_kind is max"});
  EXPECT_EQ(most + P("b"),
            P("a", "b").with_unreduced({"c"}, UnreducedKind::max).with_reduced({"d"}));
  EXPECT_EQ((P("b") + most.with_reduced({})).unreduced_kind(), UnreducedKind::max);
}

TEST(PartitionSpec, Behaviour_048_LongerThanTheRank) {
  const NamedSharding s(mesh(), P("x", nullptr, "y"));
  expect_parts(
      message_of<ShardingError>([&] {
        s.shard_shape({8, 8});
      }),
      {"partition_spec_test.cc:", "PartitionSpec('x', None, 'y')", "rank at least 3", "rank 2"});
  expect_parts(message_of<ShardingError>([&] { NamedSharding(mesh(), P("x")).shard_shape({}); }),
               {"rank at least 1", "rank 0", "PartitionSpec()"});
  for (const std::string& m : {message_of<ShardingError>([&] {
                                 s.devices_indices_map({8, 8});
                               }),
                               message_of<ShardingError>([&] { s.to_hlo_text(2); })}) {
    expect_parts(m, {"PartitionSpec('x', None, 'y')", "rank at least 3", "rank 2"});
  }
}

TEST(PartitionSpec, Behaviour_049_ASpecIsNeeded) {
  static_assert(!std::is_constructible_v<NamedSharding, Mesh, std::nullptr_t>);
  static_assert(std::is_constructible_v<NamedSharding, Mesh, PartitionSpec>);
}

TEST(PartitionSpec, Behaviour_051_MessagesShowTheUsersOwnSpec) {
  // Trailing Nones, the order of axes and UNCONSTRAINED stay as written.
  const NamedSharding s(mesh(), P(axes("y", "x"), UNCONSTRAINED, nullptr, nullptr));
  expect_parts(message_of<IndivisibleError>([&] {
                 s.shard_shape({9, 1, 1, 1});
               }),
               {"spec=PartitionSpec(('y', 'x'), UNCONSTRAINED, None, None)"});
}

TEST(Lowering, SpecsToAxesAndBack) {
  const MeshRef logical = to_logical_mesh(mesh());
  const TensorSharding s = spec_to_axes(P("y", UNCONSTRAINED, "x"), logical, 4);
  EXPECT_EQ(s.to_string(), "#sdy.sharding<@mesh, [{\"y\"}, {?}, {\"x\"}, {}]>");
  EXPECT_TRUE(*to_partition_spec(s) == P("y", nullptr, "x"));
  const TensorSharding fine = s.on(refine_to_primes(logical));
  EXPECT_TRUE(*to_partition_spec(fine) == P("y", nullptr, "x"));
  TensorSharding part = TensorSharding::replicated_on(refine_to_primes(logical), 1);
  part.dims[0].axes = {1};
  EXPECT_EQ(part.mesh->axes[1].to_string(), "x:(2)2");
  EXPECT_EQ(to_partition_spec(part), std::nullopt);
  part.dims[0].axes = {1, 0};
  EXPECT_EQ(to_partition_spec(part), std::nullopt);
  part.dims[0].axes = {0, 1};
  EXPECT_TRUE(*to_partition_spec(part) == P("x"));
  EXPECT_TRUE(spec_to_axes(P("y", nullptr, "x"), fine.mesh, 4).same_placement(s));
  // The sums too.
  const P sum = P("x").with_unreduced({"y"});
  EXPECT_TRUE(*to_partition_spec(spec_to_axes(sum, logical, 2)) == sum);
  for (const UnreducedKind kind : {UnreducedKind::max, UnreducedKind::min}) {
    const P parts = P("x").with_unreduced({"y"}, kind);
    TensorSharding axes = spec_to_axes(parts, logical, 2);
    EXPECT_EQ(axes.to_string(), std::string("#sdy.sharding<@mesh, [{\"x\"}, {}], unreduced=") +
                                    to_string(kind) + "{\"y\"}>");
    EXPECT_TRUE(*to_partition_spec(axes) == parts);
    EXPECT_EQ(unreduced_kind_of(reduction_of(kind)), kind);
    // No spec says that parts are factors.
    axes.reduction = Reduction::other;
    EXPECT_EQ(to_partition_spec(axes), std::nullopt);
  }
}

TEST(Lowering, PartsKeepTheirKind) {
  const Mesh m = mesh();
  const Mesh renamed(m.devices(), m.axis_sizes(), {"a", "b"});
  for (const UnreducedKind kind : {UnreducedKind::sum, UnreducedKind::max, UnreducedKind::min}) {
    const NamedSharding s(m, P("x").with_unreduced({"y"}, kind));
    const TensorSharding axes = to_tensor_sharding(s, 2, m.devices());
    EXPECT_TRUE(to_public_sharding(axes, m, m.devices()) == s);
    // By tiles, where the names of axes are others, and the kind is kept all the same.
    const NamedSharding there(renamed, P("a").with_unreduced({"b"}, kind));
    EXPECT_TRUE(to_public_sharding(axes, renamed, m.devices()) == there);
    EXPECT_TRUE(*to_named_sharding(s, renamed, 2) == there);
    EXPECT_TRUE(s.is_equivalent_to(there, 2));
    for (const UnreducedKind other : {UnreducedKind::sum, UnreducedKind::max, UnreducedKind::min}) {
      const NamedSharding o(renamed, P("a").with_unreduced({"b"}, other));
      EXPECT_EQ(s.is_equivalent_to(o, 2), kind == other);
      EXPECT_EQ(s == NamedSharding(m, P("x").with_unreduced({"y"}, other)), kind == other);
    }
    // A tiling is of sums.
    const GSPMDSharding tiled(m.devices(), s.to_hlo_text(2));
    EXPECT_EQ(s.is_equivalent_to(tiled, 2), kind == UnreducedKind::sum);
    const Mesh odd(m.devices(), {m.size()}, {"all"});
    if (kind == UnreducedKind::sum) {
      EXPECT_TRUE(GSPMDSharding::is(to_public_sharding(axes, odd, m.devices())));
    } else {
      expect_parts(message_of<NotImplementedError>(
                       [&] { (void)to_public_sharding(axes, odd, m.devices()); }),
                   {std::string("unreduced_kind=") + to_string(kind), "'all'", "sums only"});
    }
  }
  // Parts over an axis of one device are the value.
  const Mesh thin(m.devices(), {m.size(), 1}, {"x", "one"});
  EXPECT_TRUE(NamedSharding(thin, P("x").with_unreduced({"one"}, UnreducedKind::max))
                  .is_equivalent_to(NamedSharding(thin, P("x")), 1));
}

TEST(Lowering, LogicalDevicesFollowTheAssignment) {
  const Mesh m(test::devices_of({5, 3, 9, 7}), {2, 2}, {"x", "y"});
  const std::vector<Device> assignment = test::devices_of({3, 5, 7, 9});
  const MeshRef logical = to_logical_mesh(m, assignment);
  EXPECT_EQ(logical->device_ids, (Dims{1, 0, 3, 2}));
  EXPECT_TRUE(to_logical_mesh(m)->device_ids.empty());
  const NamedSharding s(m, P("y"));
  EXPECT_EQ(to_tiling(to_tensor_sharding(s, 1, assignment)).to_string(),
            "{devices=[2,2]1,3,0,2 last_tile_dim_replicate}");
  EXPECT_TRUE(to_public_sharding(to_tensor_sharding(s, 1, assignment), m, assignment) == s);
  // A sharding without names over the same devices in its own order.
  const GSPMDSharding g(m.devices(), "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  EXPECT_TRUE(to_tensor_sharding(g, 1, assignment)
                  .same_placement(
                      from_tilings(parse_tilings("{devices=[2,2]1,3,0,2 last_tile_dim_replicate}"),
                                   std::vector<std::int64_t>{1}, 4)[0]));
  expect_parts(message_of<ShardingError>([&] { to_logical_mesh(m, some_devices(4)); }),
               {"'x': 2", "cpu:0, cpu:1"});
  // What the mesh's axes can't express keeps its devices.
  TensorSharding odd =
      from_tilings(parse_tilings("{devices=[4]0,1,3,2}"), std::vector<std::int64_t>{1}, 4)[0];
  const Sharding out = to_public_sharding(odd, m, assignment);
  EXPECT_TRUE(GSPMDSharding::is(out));
  EXPECT_EQ(out.devices_indices_map({4}).at(test::devices_of({9})[0])[0].start, 2);
}

}  // namespace
}  // namespace tessera
