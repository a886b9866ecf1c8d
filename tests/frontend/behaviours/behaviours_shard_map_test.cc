// SPDX-License-Identifier: Apache-2.0
// Behaviours 289 to 309 of docs/reference/behaviours.md: what shard_map takes, what its collectives
// do, and the types of values in it.
#include <tessera/shard_map.h>

#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

Mesh cube() { return mesh_of({{"x", 2}, {"y", 2}, {"z", 2}}); }
Mesh two_axis_mesh() { return mesh_of({{"x", 2}, {"y", 4}}); }
std::vector<float> part(const Array& a, std::size_t i) { return floats(a.addressable_data(i)); }
Array identity(Array x) { return x; }
using Axes = std::vector<std::string>;

TEST(ShardMap, Behaviour_289_AnIdentityCutsAndJoins) {
  const PartitionSpec spec("z", axes("x", "y"));
  const Array x = counting({8, 8});
  auto f = shard_map(
      [](Array a) {
        EXPECT_EQ(a.shape(), (Array::Dims{4, 2}));
        return a;
      },
      {.mesh = cube(), .in_specs = spec, .out_specs = spec});
  for (const Array& y : {f(x), jit(f)(x), f(put(x, cube(), P("x")))}) {
    EXPECT_EQ(y.sharding(), NamedSharding(cube(), spec));
    EXPECT_EQ(y.addressable_data(0).shape(), (Array::Dims{4, 2}));
    expect_close(y, x);
    // Device 5 is at (1, 0, 1): rows 4 to 7, columns 4 and 5.
    expect_close(part(y, 5), {36, 37, 44, 45, 52, 53, 60, 61});
  }
}

TEST(ShardMap, Behaviour_290_AllGather) {
  const Array x = counting({8, 8});
  const PartitionSpec spec("z", axes("x", "y"));
  auto gather = [&](const AxisNames& names, int dim) {
    return jit(
        shard_map([=](Array a) { return all_gather(a, names, {.axis = dim, .tiled = true}); },
                  {.mesh = cube(), .in_specs = spec, .out_specs = spec}))(x);
  };
  // Each device now has the parts of all devices along z, so the global array is twice as tall.
  const Array rows = gather("z", 0);
  EXPECT_EQ(rows.shape(), (Array::Dims{16, 8}));
  expect_close(part(rows, 0), part(rows, 1));
  std::vector<float> columns;
  for (int r = 0; r < 8; ++r) columns.insert(columns.end(), {float(8 * r), float(8 * r + 1)});
  expect_close(part(rows, 0), columns);
  const Array wide = gather({"x", "y"}, 1);
  EXPECT_EQ(wide.shape(), (Array::Dims{8, 32}));
  std::vector<float> top = floats(x);
  top.resize(32);
  for (std::size_t d : {0u, 2u, 4u, 6u}) expect_close(part(wide, d), top);

  // Groups of an axis of 8.
  auto grouped = shard_map(
      [](Array a) {
        return all_gather(a, "i",
                          {.tiled = true, .axis_index_groups = {{0, 2, 5, 3}, {1, 6, 7, 4}}});
      },
      {.mesh = mesh_of({{"i", 8}}), .in_specs = P("i"), .out_specs = P("i")});
  const Array y = grouped(counting({8}));
  expect_close(part(y, 5), {0, 2, 5, 3});
  expect_close(part(y, 7), {1, 6, 7, 4});
}

TEST(ShardMap, Behaviour_291_AGatheredValueMayBeInvarying) {
  const Array x = counting({8});
  auto f = [&](const std::string& to) {
    return shard_map([=](Array a) { return all_gather(a, "x", {.tiled = true, .to = to}); },
                     {.mesh = mesh_of({{"x", 8}}), .in_specs = P("x"), .out_specs = P()});
  };
  const Array y = f("invarying")(x);
  EXPECT_TRUE(y.is_fully_replicated());
  expect_close(y, x);
  expect_error<ValueError>([&] { f("varying")(x); }, {"out_specs", "result", "{'x'}", kNear});
  expect_error<ValueError>([&] { f("reduced")(x); }, {"all_gather", "'reduced'", "invarying"});
}

TEST(ShardMap, Behaviour_292_PsumScatter) {
  const Array x = counting({8, 8});
  // Along x the rows' blocks, each summed over the devices of the axis and cut along dim 1.
  auto one = shard_map(
      [](Array a) { return psum_scatter(a, "x", {.scatter_dimension = 1, .tiled = true}); },
      {.mesh = two_axis_mesh(), .in_specs = P("x"), .out_specs = P(nullptr, "x")});
  std::vector<float> want;
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 8; ++c) want.push_back(float(8 * r + c + 8 * (r + 4) + c));
  }
  expect_close(floats(one(x)), want);
  auto both = shard_map(
      [](Array a) {
        return psum_scatter(reshape(a, {8}), {"x", "y"});
      },
      {.mesh = two_axis_mesh(), .in_specs = P(axes("x", "y")), .out_specs = P()});
  expect_error<ValueError>([&] { both(x); }, {"{'x', 'y'}"});
  auto joined = shard_map(
      [](Array a) {
        return reshape(psum_scatter(reshape(a, {8}), {"x", "y"}), {1});
      },
      {.mesh = two_axis_mesh(), .in_specs = P(axes("x", "y")), .out_specs = P(axes("x", "y"))});
  std::vector<float> sums;
  for (int c = 0; c < 8; ++c) sums.push_back(float(8 * 28 + 8 * c));
  expect_close(floats(joined(x)), sums);
  auto grouped = shard_map(
      [](Array a) {
        return psum_scatter(a, "i", {.tiled = true, .axis_index_groups = {{0, 3}, {1, 2}}});
      },
      {.mesh = mesh_of({{"i", 4}}), .in_specs = P("i"), .out_specs = P("i")});
  // Devices hold (0,1), (2,3), (4,5), (6,7).
  expect_close(floats(grouped(counting({8}))), {6, 6, 8, 8});
}

TEST(ShardMap, Behaviour_293_Ppermute) {
  const Mesh mesh = two_axis_mesh();
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  auto send = [&](const AxisNames& names, const Pairs& pairs) {
    return floats(
        shard_map([=](Array a) { return ppermute(a, names, pairs); },
                  {.mesh = mesh, .in_specs = P(axes("x", "y")), .out_specs = P(axes("x", "y"))})(
            counting({8})));
  };
  expect_close(send("y", {{0, 1}, {1, 2}, {2, 3}, {3, 0}}), {3, 0, 1, 2, 7, 4, 5, 6});
  // Who gets nothing has zeros.
  expect_close(send("y", {{0, 1}}), {0, 0, 0, 0, 0, 4, 0, 0});
  expect_close(send({"x", "y"}, {{0, 7}, {1, 0}}), {1, 0, 0, 0, 0, 0, 0, 0});
  // In any order of names: y is the major one, so that position 1 is (x 1, y 0).
  expect_close(send({"y", "x"}, {{1, 0}, {7, 2}}), {4, 7, 0, 0, 0, 0, 0, 0});
  expect_error<ValueError>([&] { send("x", {{0, 1}, {1, 1}}); }, {"ppermute", "unique", kNear});
  expect_error<ValueError>([&] { send("x", {{0, 2}}); }, {"(0, 2)", "0 to 1"});
}

TEST(ShardMap, Behaviour_294_AllToAll) {
  const Array x = counting({8, 8});
  // Rows split over both become columns split over both: positions in the global array stay the
  // same.
  auto swap = shard_map(
      [](Array a) {
        return all_to_all(a, {"x", "y"}, 1, 0, true);
      },
      {.mesh = two_axis_mesh(),
       .in_specs = P(axes("x", "y")),
       .out_specs = P(nullptr, axes("x", "y"))});
  expect_close(swap(x), x);
  auto over_y =
      shard_map([](Array a) { return all_to_all(a, "y", 1, 0, true); },
                {.mesh = two_axis_mesh(), .in_specs = P("y"), .out_specs = P(nullptr, "y")});
  expect_close(over_y(x), x);
  auto grouped = shard_map(
      [](Array a) {
        return all_to_all(a, "i", 0, 0, true, {{1, 0}, {3, 2}});
      },
      {.mesh = mesh_of({{"i", 4}}), .in_specs = P("i"), .out_specs = P("i")});
  // Of (0,1), (2,3), (4,5), (6,7): device 1 comes first in its group.
  expect_close(floats(grouped(counting({8}))), {3, 1, 2, 0, 7, 5, 6, 4});
  auto untiled = shard_map([](Array a) { return pswapaxes(a, "x", 0); },
                           {.mesh = mesh_of({{"x", 2}}), .in_specs = P("x"), .out_specs = P("x")});
  expect_close(floats(untiled(counting({4}))), {0, 2, 1, 3});
}

TEST(ShardMap, Behaviour_296_PromisedEqualityIsChecked) {
  const Array x = counting({8});
  auto f = [&](auto body, PartitionSpec out) {
    return shard_map(
        body,
        {.mesh = two_axis_mesh(), .in_specs = P(axes("x", "y")), .out_specs = out, .name = "f"});
  };
  auto bare = [](Array a) { return sum(a); };
  const std::vector<std::string> parts{"shard_map of 'f'",
                                       "PartitionSpec()",
                                       "result (f32[]",
                                       "{'x', 'y'}",
                                       "psum",
                                       "check_vma",
                                       "Mesh('x': 2, 'y': 4",
                                       kNear};
  expect_error<ValueError>([&] { f(bare, P())(x); }, parts);
  expect_error<ValueError>([&] { jit(f(bare, P()))(x); }, parts);
  auto over_x = [](Array a) { return reshape(psum(sum(a), "x"), {1}); };
  expect_error<ValueError>([&] { f(over_x, P())(x); }, {"{'y'}"});
  expect_close(floats(f(over_x, P("y"))(x)), {4, 6, 8, 10});
  auto both = [](Array a) { return psum(sum(a), {"x", "y"}); };
  EXPECT_EQ(f(both, P())(x).item<float>(), 28);
  EXPECT_EQ(jit(f(both, P()))(x).item<float>(), 28);
  // The promise is taken for true.
  auto unchecked = shard_map(
      [](Array a) { return all_gather(a, "x", {.tiled = true}); },
      {.mesh = mesh_of({{"x", 8}}), .in_specs = P("x"), .out_specs = P(), .check_vma = false});
  expect_close(unchecked(x), x);
  auto older = experimental::shard_map([](Array a) { return all_gather(a, "x", {.tiled = true}); },
                                       mesh_of({{"x", 8}}), P("x"), P(), {.check_rep = false});
  expect_close(older(x), x);
}

TEST(ShardMap, Behaviour_297_RanksAndTrees) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto scalar = shard_map([](Array a) { return sum(a); },
                          {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .name = "f"});
  expect_error<ShardingError>([&] { scalar(counting({8})); },
                              {"shard_map of 'f'", "out_specs", "result is f32[] of rank 0",
                               "PartitionSpec('x')", "P()", "reshape(x, {1})", kNear});
  auto list = shard_map([](std::vector<Array> a) { return a[0]; },
                        {.mesh = mesh, .in_specs = tree(tree(P("x"), P())), .out_specs = P("x")});
  expect_error<ValueError>([&] { list(std::vector<Array>{counting({8})}); },
                           {"in_specs must be a tree prefix of the positional arguments",
                            "the tree at [0] has 1 element,", "in_specs has 2", kNear});
  auto two = shard_map(
      [](Array a) {
        return std::pair{a, a};
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = tree(P("x"), P("x"), P("x"))});
  expect_error<ValueError>([&] { two(counting({8})); },
                           {"out_specs must be a tree prefix of the result", "2 elements", kNear});
}

TEST(ShardMap, Behaviour_298_SizesAndRanksOfArguments) {
  auto f = [](PartitionSpec spec) {
    return shard_map([](Array a, Array) { return a; }, {.mesh = two_axis_mesh(),
                                                        .in_specs = tree(spec, P()),
                                                        .out_specs = spec,
                                                        .name = "f",
                                                        .arg_names = {"weights"}});
  };
  expect_error<IndivisibleError>(
      [&] {
        f(P(nullptr, axes("x", "y")))(counting({2, 12}), counting({3}));
      },
      {"shard_map of 'f'", "weights is f32[2,12]", "PartitionSpec(None, ('x', 'y'))",
       "dim 1 of size 12", "axes 'x', 'y' of total size 8", "8 and 16 would do", kNear});
  expect_error<IndivisibleError>([&] { f(P("y"))(counting({3}), counting({3})); },
                                 {"axis 'y' of size 4", "(4 would do)"});
  expect_error<ShardingError>([&] { f(P("x", "y"))(counting({8}), counting({3})); },
                              {"in_specs longer than the rank", "weights is f32[8] of rank 1",
                               "PartitionSpec('x', 'y') has 2 entries", kNear});
  // All that are wrong are named.
  auto g = shard_map([](Array a, std::vector<Array>) { return a; },
                     {.mesh = two_axis_mesh(), .in_specs = P("x"), .out_specs = P("x")});
  expect_error<IndivisibleError>(
      [&] {
        g(counting({3}), std::vector<Array>{counting({2}), counting({5})});
      },
      {"argument 0 is f32[3]", "argument 1[1] is f32[5]"});
}

TEST(ShardMap, Behaviour_299_StaticArguments) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({8}), y = counting({4});
  // nullptr hands the array itself over.
  auto f = shard_map(
      [&](Array a, Array b, Array c) {
        EXPECT_TRUE(a.is_tracer());
        EXPECT_EQ(b.impl(), y.impl());
        EXPECT_EQ(b.shape(), (Array::Dims{4}));
        return a + c + sum(b);
      },
      {.mesh = mesh, .in_specs = tree(P("x"), nullptr, P("x")), .out_specs = P("x")});
  expect_close(f(x, y, x), x * 2 + 6);
  // Numbers are static arguments, left out of in_specs: every layout.
  auto first = shard_map([](int n, Array a, Array b) { return a * n + b; }, static_argnums<0>,
                         {.mesh = mesh, .in_specs = tree(P("x"), P()), .out_specs = P("x")});
  auto middle = shard_map([](Array a, int n, Array b) { return a * n + b; }, static_argnums<1>,
                          {.mesh = mesh, .in_specs = tree(P("x"), P()), .out_specs = P("x")});
  auto last = shard_map([](Array a, Array b, int n) { return a * n + b; }, static_argnums<2>,
                        {.mesh = mesh, .in_specs = tree(P("x"), P()), .out_specs = P("x")});
  const Array one = ones({1});
  for (const Array& r : {first(3, x, one), middle(x, 3, one), last(x, one, 3)}) {
    expect_close(r, x * 3 + 1);
  }
  auto all = shard_map([&](Array a) { return a + axis_index("x").astype(f32); },
                       {.mesh = mesh_of({{"x", 2}}), .in_specs = nullptr, .out_specs = P("x")});
  expect_close(floats(all(y)), {0, 1, 2, 3, 1, 2, 3, 4});
}

TEST(ShardMap, Behaviour_300_NumberOfArguments) {
  auto f = shard_map([](Array a, Array b) { return a + b; },
                     {.mesh = mesh_of({{"x", 8}}), .in_specs = tree(P("x")), .out_specs = P("x")});
  expect_error<ValueError>([&] { f(counting({8}), counting({8})); },
                           {"in_specs", "has 2 elements", "has 1", kNear});
}

TEST(ShardMap, Behaviour_301_SpecsNameManualAxes) {
  auto f = [](ShardingTree in, ShardingTree out) {
    return shard_map(
        [](Array a, Array b) { return a + b; },
        {.mesh = two_axis_mesh(), .in_specs = in, .out_specs = out, .axis_names = {"x"}});
  };
  const Array x = counting({8});
  expect_error<ShardingError>(
      [&] { f(tree(P("x"), P("y")), P("x"))(x, x); },
      {"shard_map in_specs must refer to axes that it makes manual", "here 'x'",
       "in_specs[1], PartitionSpec('y'), refers to 'y'", "automatic"});
  expect_error<ShardingError>([&] { f(P("x"), P(axes("x", "i")))(x, x); },
                              {"out_specs, PartitionSpec(('x', 'i')), refers to 'i'",
                               "which the mesh lacks", "Mesh('x': 2, 'y': 4"});
  expect_error<TypeError>([&] { f(tree(P("x"), NamedSharding(two_axis_mesh(), P())), P("x")); },
                          {"in_specs[1] is NamedSharding", "PartitionSpecs", kNear});
  expect_error<TypeError>([&] { f(P(), nullptr); }, {"out_specs is None", "P()"});
  expect_error<TypeError>([&] { f(UNSPECIFIED, P()); }, {"in_specs must be given"});
  expect_error<DuplicateSpecError>([&] { f(P("x", "x"), P()); }, {"in_specs", "'x'"});
  expect_error<ValueError>([&] { f(P(UNCONSTRAINED), P()); }, {"UNCONSTRAINED"});
}

TEST(ShardMap, Behaviour_302_NestedOverTheRemainingAxes) {
  const Mesh mesh = cube();
  const Array x = counting({8, 8});
  // Block sums over all axes, one shard_map an axis.
  auto nested = [&](std::optional<Mesh> inner_mesh) {
    return shard_map(
        [=](Array a) {
          EXPECT_EQ(a.shape(), (Array::Dims{4, 8}));
          EXPECT_EQ(current_mesh().manual_axes(), Axes{"x"});
          return shard_map(
              [](Array b) {
                EXPECT_EQ(b.shape(), (Array::Dims{4, 4}));
                EXPECT_EQ(current_mesh().manual_axes(), (Axes{"x", "y"}));
                EXPECT_EQ(varying_axes(b), (Axes{"x", "y"}));
                return psum(b, "x") + axis_index("y").astype(f32);
              },
              {.mesh = inner_mesh,
               .in_specs = P(nullptr, "y"),
               .out_specs = P(nullptr, "y"),
               .axis_names = {"y"}})(a);
        },
        {.mesh = mesh, .in_specs = P("x"), .out_specs = P(), .axis_names = {"x"}});
  };
  std::vector<float> want;
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 8; ++c) want.push_back(float(16 * r + 32 + 2 * c + (c >= 4)));
  }
  expect_close(floats(jit(nested({}))(x)), want);
  expect_close(floats(nested({})(x)), want);
  expect_error<ValueError>(
      [&] { nested(mesh)(x); },
      {"the mesh in scope", "Manual", "should match the mesh passed", "leave mesh out", kNear});
  auto again = shard_map(
      [](Array a) {
        return shard_map(identity, {.in_specs = P(), .out_specs = P(), .axis_names = {"x"}})(a);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  expect_error<ValueError>([&] { again(x); }, {"axis_names holds 'x'", "manual already", kNear});
  auto full =
      shard_map([](Array a) { return shard_map(identity, {.in_specs = P(), .out_specs = P()})(a); },
                {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  expect_error<ValueError>([&] { full(x); }, {"manual over all axes", "none is left", kNear});
  const MeshScope scope(mesh_of({{"a", 8}}));
  expect_error<ValueError>([&] { nested({})(x); },
                           {"the mesh in scope, Mesh('a': 8", "Mesh('x': 2", kNear});
}

TEST(ShardMap, Behaviour_303_ConstraintsMayOnlyNameAutomaticAxes) {
  const Array x = counting({8, 8});
  auto f = [&](PartitionSpec spec, std::vector<std::string> names) {
    return jit(shard_map(
        [=](Array a) {
          Array b = with_sharding_constraint(a * 2, spec);
          return b + 1;
        },
        {.mesh = two_axis_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = names}));
  };
  const Array y = f(P(nullptr, "y"), {"x"})(x);
  expect_close(y, x * 2 + 1);
  EXPECT_EQ(y.sharding(), NamedSharding(two_axis_mesh(), P("x", "y")));
  expect_error<ShardingError>([&] { f(P("x"), {"x"})(x); },
                              {"with_sharding_constraint", "PartitionSpec('x') refers to 'x'",
                               "manual here", "'y'", kNear});
  expect_error<ShardingError>([&] { f(P("y"), {})(x); }, {"no axis of the mesh is left automatic"});
  expect_close(f(P(), {})(x), x * 2 + 1);
}

TEST(ShardMap, Behaviour_304_AxisNamesAreAxes) {
  auto f = [](std::vector<std::string> names) {
    return shard_map(identity, {.mesh = two_axis_mesh(),
                                .in_specs = P(),
                                .out_specs = P(),
                                .axis_names = std::move(names)});
  };
  expect_error<ValueError>(
      [&] {
        f({"x", "i"});
      },
      {"axis_names to be a subset", "'x', 'i'", "'x', 'y'", kNear});
  expect_error<ValueError>([&] { f({"x", "x"}); }, {"'x' twice"});
  expect_error<ShardingError>(
      [&] { experimental::shard_map(identity, two_axis_mesh(), P(), P(), {.auto_axes = {"i"}}); },
      {"auto_axes", "'i'", "Mesh('x': 2", kNear});
  expect_error<ShardingError>(
      [&] {
        experimental::shard_map(identity, two_axis_mesh(), P(), P(), {.auto_axes = {"x", "y"}});
      },
      {"none is left"});
}

TEST(ShardMap, Behaviour_305_AMeshIsNeeded) {
  auto f = shard_map([](Array a) { return psum(a, "x"); }, {.in_specs = P("x"), .out_specs = P()});
  expect_error<ValueError>([&] { f(counting({8})); }, {"no mesh was given", "MeshScope", kNear});
  {
    const MeshScope scope(mesh_of({{"x", 4}}));
    expect_close(floats(f(counting({8}))), {12, 16});
    expect_close(floats(jit(f)(counting({8}))), {12, 16});
  }
  expect_error<ValueError>(
      [&] { shard_map(identity, {.mesh = Mesh(), .in_specs = P(), .out_specs = P()}); },
      {"non-empty mesh", kNear});
}

TEST(ShardMap, Behaviour_308_LoopsCarryValuesThatVaryOverTheSameAxes) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({8});
  auto f = [&](auto body) {
    return shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  };
  using Two = std::pair<Array, Array>;
  auto step = [](Two c, std::tuple<>) {
    return std::pair{Two{c.first + 1, c.second + c.first}, std::tuple<>()};
  };
  auto without = [&](Array a) {
    auto [c, none] = scan(step, Two{a, zeros({1})}, std::tuple<>(), {.length = 3});
    return c.second;
  };
  expect_error<TypeError>(
      [&] { f(without)(x); },
      {"scan", "carry[1] (f32[1]) varies over {} before and over {'x'} after the body",
       "pcast(..., \"x\") to the initial carry[1]", kNear});
  auto with = [&](Array a) {
    auto [c, none] = scan(step, Two{a, pcast(zeros({1}), "x")}, std::tuple<>(), {.length = 3});
    return c.second;
  };
  expect_close(f(with)(x), x * 3 + 3);
  // What varies less than the carry is fine.
  auto less = [&](Array a) {
    return while_loop([](Array c) { return psum(sum(c), "x") < 100.f; },
                      [](Array c) { return psum(c, "x"); }, a);
  };
  expect_close(floats(f(less)(x)), std::vector<float>(8, 28));
  // Several at fault: all are named.
  auto both = [&](Array a) {
    return fori_loop(
               0, 3,
               [&](Array, Two c) {
                 return Two{c.first + a, c.second * a};
               },
               Two{zeros({1}), ones({1})})
        .first;
  };
  expect_error<TypeError>([&] { f(both)(x); },
                          {"fori_loop", "to the initial carry[0]", "to the initial carry[1]"});
  auto unchecked =
      shard_map(both, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .check_vma = false});
  expect_close(unchecked(x), x * 3);
  // A loop that devices leave at different times makes values that differ.
  auto leave = [&](Array a) {
    const Array end = sum(a);
    return fori_loop(
        Array(0), end.astype(s32), [](Array, Array c) { return c + 1; }, Array(zeros({1})));
  };
  auto promised = shard_map(leave, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
  expect_error<ValueError>([&] { promised(x); }, {"out_specs", "{'x'}"});
  expect_close(f(leave)(x), x);
}

TEST(ShardMap, Behaviour_309_BranchesReturnValuesThatVaryOverTheSameAxes) {
  const Array x = counting({8});
  auto f = [&](bool cast) {
    return shard_map(
        [=](Array a) {
          return cond(
              psum(sum(a), "x") > 10.f, [](Array b) { return b * 2; },
              [=](Array) {
                const Array none = zeros({1});
                return cast ? pcast(none, "x", {.to = "varying"}) : none;
              },
              a);
        },
        {.mesh = mesh_of({{"x", 8}}), .in_specs = P("x"), .out_specs = P("x")});
  };
  expect_error<TypeError>([&] { f(false)(x); },
                          {"cond",
                           "result varies over {} in the false branch, over {'x'} in the "
                           "true branch",
                           "pcast(..., \"x\") to the result of the false branch", kNear});
  expect_close(f(true)(x), x * 2);
}

}  // namespace
}  // namespace tessera::testing
