// SPDX-License-Identifier: Apache-2.0
// Behaviours 314 to 330 of docs/reference/behaviours.md: shard_map with partly manual meshes,
// random numbers, and other parts of the library within.
#include <tessera/control_flow.h>
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/sorting.h>
#include <tessera/random.h>
#include <tessera/shard_map.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

Mesh pair_mesh() { return mesh_of({{"x", 2}, {"y", 4}}); }
using Axes = std::vector<std::string>;

TEST(ShardMap, Behaviour_314_SumsOfWhatDoesntVary) {
  const Array x = counting({8});
  auto f = shard_map(
      [](Array a) {
        const Array once = psum(sum(a), "x");
        EXPECT_EQ(varying_axes(once), Axes{});
        const Array twice = psum(once, "x");
        EXPECT_EQ(varying_axes(twice), Axes{});
        // Of plain numbers: known while tracing.
        EXPECT_EQ(psum(1, "x").item<int>(), 8);
        EXPECT_EQ(psum(0.5, "x").item<float>(), 4.f);
        EXPECT_EQ(psum(3, {"x"}).dtype(), s32);
        return twice + psum(ones({}), "x");
      },
      {.mesh = mesh_of({{"x", 8}}), .in_specs = P("x"), .out_specs = P()});
  EXPECT_EQ(f(x).item<float>(), 28 * 8 + 8);
}

TEST(ShardMap, Behaviour_317_ValuesHaveNoValuesWithin) {
  auto f = shard_map([](Array a) { return psum(sum(a), "x").item<float>() > 3 ? a : -a; },
                     {.mesh = mesh_of({{"x", 8}}), .in_specs = P("x"), .out_specs = P("x")});
  expect_error<TracerError>([&] { f(counting({8})); }, {"traced", "cond", kNear});
}

TEST(ShardMap, Behaviour_318_PutWithin) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = [&](ShardingTree target) {
    return shard_map([=](Array a) { return device_put(a, target) + 1; },
                     {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  };
  expect_error<ValueError>([&] { f(SingleDeviceSharding(devices()[0]))(counting({8})); },
                           {"device_put to SingleDeviceSharding", "per-device code", kNear});
  expect_error<ValueError>([&] { f(NamedSharding(mesh, P()))(counting({8})); }, {"device_put"});
  expect_close(f(nullptr)(counting({8})), counting({8}) + 1);
}

TEST(ShardMap, Behaviour_320_PartlyManualMeshes) {
  const Mesh mesh = pair_mesh();
  const Array x = counting({8, 8});
  auto f = [&](auto body, PartitionSpec out) {
    return jit(
        shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = out, .axis_names = {"x"}}));
  };
  const Array split = put(x, mesh, P("x", "y"));
  for (const Array& a : {x, split}) {
    // Reductions along a dim that is split automatically.
    const Array sums = f([](Array b) { return psum(sum(b, 1), "x"); }, P())(a);
    expect_close(sums, sum(reshape(x, {2, 4, 8}), {0, 2}));
    // Positions, and what is sent from one to the next.
    const Array index =
        f([](Array b) { return b * 0 + axis_index("x").astype(f32) + float(axis_size("x")); },
          P("x"))(a);
    EXPECT_EQ(floats(index)[0], 2);
    EXPECT_EQ(floats(index)[63], 3);
    const Array sent = f([](Array b) { return ppermute(b, "x", {{0, 1}}); }, P("x"))(a);
    EXPECT_EQ(floats(sent)[31], 0);
    EXPECT_EQ(floats(sent)[32], 0);
    EXPECT_EQ(floats(sent)[33], 1);
    const Array gathered =
        f([](Array b) { return all_gather(b, "x", {.tiled = true, .to = "invarying"}); }, P())(a);
    expect_close(gathered, x);
    const Array product = f([](Array b) { return psum(matmul(transpose(b), b), "x"); }, P())(a);
    expect_close(product, matmul(transpose(x), x));
  }
  // The automatic axis still splits the array.
  const Array kept = f([](Array b) { return b + 1; }, P("x"))(split);
  EXPECT_EQ(kept.sharding(), NamedSharding(mesh, P("x", "y")));
  // Keys for each device, and an axis of one device.
  const Array key = random::key(3);
  auto draw = jit(shard_map(
      [](Array k) {
        return random::uniform(random::fold_in(k, axis_index("x")), {1, 4});
      },
      {.mesh = mesh, .in_specs = P(), .out_specs = P("x"), .axis_names = {"x"}}));
  const Array drawn = draw(key);
  for (int d = 0; d < 2; ++d) {
    expect_close(floats(index(drawn, {d})), floats(random::uniform(random::fold_in(key, d), {4})));
  }
  const Mesh thin = mesh_of({{"one", 1}, {"y", 8}});
  auto over_one =
      jit(shard_map([](Array b) { return psum(b + axis_index("one").astype(f32), "one"); },
                    {.mesh = thin, .in_specs = P("one"), .out_specs = P(), .axis_names = {"one"}}));
  expect_close(over_one(put(x, thin, P(nullptr, "y"))), x);
  expect_error<ValueError>(
      [&] { f([](Array b) { return psum(b, "y"); }, P())(x); },
      {"psum over 'y'", "not bound here", "over 'x' alone", "axis_names", kNear});
}

TEST(ShardMap, Behaviour_322_UnreducedSpecs) {
  expect_error<NotImplementedError>(
      [] {
        shard_map([](Array a) { return a; },
                  {.mesh = pair_mesh(), .in_specs = P(), .out_specs = P().with_unreduced({"x"})});
      },
      {"out_specs", "unreduced", kNear});
}

TEST(ShardMap, Behaviour_324_RandomNumbersDifferIfTheKeyDoes) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array key = random::key(0);
  auto same = shard_map([](Array k) { return random::normal(k, {4}); },
                        {.mesh = mesh, .in_specs = P(), .out_specs = P()});
  expect_close(same(key), random::normal(key, {4}));
  auto own = shard_map(
      [](Array k) {
        const Array mine = random::fold_in(k, axis_index("x"));
        EXPECT_EQ(varying_axes(random::normal(mine, {4})), Axes{"x"});
        return random::normal(mine, {4});
      },
      {.mesh = mesh, .in_specs = P(), .out_specs = P("x")});
  const std::vector<float> have = floats(own(key));
  for (int d = 0; d < 8; ++d) {
    const std::vector<float> want = floats(random::normal(random::fold_in(key, d), {4}));
    expect_close({have.begin() + 4 * d, have.begin() + 4 * d + 4}, want);
  }
  auto split = shard_map([](Array k) { return random::uniform(reshape(k, {2}), {2}); },
                         {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_NE(floats(split(random::split(key, 8)))[0], floats(split(random::split(key, 8)))[2]);
}

TEST(ShardMap, Behaviour_325_TypesOfManyOperations) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Array x = counting({16, 4}, 0.1f);
  auto f = [&](auto body) {
    return shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  };
  expect_close(f([](Array a) { return cumsum(a, 1); })(x), cumsum(x, 1));
  expect_close(f([](Array a) { return erf(a) + tanh(a); })(x), erf(x) + tanh(x));
  expect_close(f([](Array a) { return sort(-a, 1); })(x), sort(-x, 1));
  expect_close(f([](Array a) { return where(a > 1, a, 0); })(x), where(x > 1, x, 0));
  expect_close(f([](Array a) { return matmul(a, ones({4, 3})); })(x), matmul(x, ones({4, 3})));
  // Whatever it is computed with, a value varies over the union.
  shard_map(
      [](Array a, Array b) {
        EXPECT_EQ(varying_axes(a), Axes{"x"});
        EXPECT_EQ(varying_axes(b), Axes{"y"});
        EXPECT_EQ(varying_axes(a + b), (Axes{"x", "y"}));
        EXPECT_EQ(varying_axes(a + 1), Axes{"x"});
        EXPECT_EQ(varying_axes(psum(a + b, "x")), Axes{"y"});
        EXPECT_EQ(varying_axes(pmax(a + b, {"x", "y"})), Axes{});
        EXPECT_EQ(varying_axes(all_gather(b, "x")), (Axes{"x", "y"}));
        EXPECT_EQ(varying_axes(psum_scatter(zeros({2}), "x")), Axes{"x"});
        EXPECT_EQ(varying_axes(ppermute(b, "y", {{0, 1}})), Axes{"y"});
        EXPECT_EQ(varying_axes(pbroadcast(a + b, "x", 1)), Axes{"y"});
        EXPECT_EQ(varying_axes(axis_index({"x", "y"})), (Axes{"x", "y"}));
        EXPECT_EQ(varying_axes(zeros({2})), Axes{});
        EXPECT_EQ(varying_axes(pcast(zeros({2}), {"x", "y"})), (Axes{"x", "y"}));
        EXPECT_EQ(varying_axes(pvary(a, {"x", "y"})), (Axes{"x", "y"}));
        EXPECT_EQ(varying_axes(jit([](Array c) { return psum(c, "x"); })(a + b)), Axes{"y"});
        EXPECT_EQ(varying_axes(psum(a, "x", {.axis_index_groups = {{0}, {1}}})), Axes{"x"});
        expect_error<ValueError>(
            [&] {
              pcast(a, {"x", "y"});
            },
            {"pcast", "varies over {'x'}", "'x' included", kNear});
        expect_error<ValueError>([&] { pcast(a, "y", {.to = "invarying"}); }, {"'invarying'"});
        expect_error<NotImplementedError>([&] { pcast(a, "y", {.to = "reduced"}); }, {"reduced"});
        return psum(a + b, {"x", "y"});
      },
      {.mesh = mesh_of({{"x", 2}, {"y", 4}}), .in_specs = tree(P("x"), P("y")), .out_specs = P()})(
      counting({8}), counting({16}));
}

TEST(ShardMap, Behaviour_328_OneAxisAtATime) {
  const MeshScope scope(pair_mesh());
  const Array x = counting({8, 8});
  auto rows = smap([](Array a) { return psum(sum(a, 0), "x"); },
                   {.in_axes = 0, .out_axes = nullptr, .axis_name = "x"});
  expect_close(rows(x), sum(x, 0));
  // Nested: a product whose columns are cut over y within rows that are cut over x.
  auto nested = smap(
      [](Array a, Array b) {
        return smap(
            [](Array c, Array d) {
              EXPECT_EQ(c.shape(), (Array::Dims{4, 8}));
              EXPECT_EQ(d.shape(), (Array::Dims{8, 2}));
              return matmul(c, d);
            },
            {.in_axes = axes_tree(nullptr, 1), .out_axes = 1, .axis_name = "y"})(a, b);
      },
      {.in_axes = axes_tree(0, nullptr), .out_axes = 0, .axis_name = "x"});
  expect_close(jit(nested)(x, x), matmul(x, x));
  expect_close(nested(x, x), matmul(x, x));
  auto unit = [](Array a) { return a; };
  expect_error<TypeError>([&] { smap(unit, {.out_axes = 0, .axis_name = "x"}); },
                          {"in_axes must be given", kNear});
  expect_error<TypeError>([&] { smap(unit, {.in_axes = 0, .axis_name = "x"}); }, {"out_axes"});
  expect_error<TypeError>([&] { smap(unit, {.in_axes = 0, .out_axes = 0}); }, {"axis_name"});
  expect_error<ValueError>([&] { smap(unit, {.in_axes = -1, .out_axes = 0, .axis_name = "x"}); },
                           {"in_axes is -1"});
}

TEST(ShardMap, Behaviour_329_TreesAndSomeOfTheDevices) {
  // Three devices of the eight, several lengths.
  const std::vector<Device> some{devices()[2], devices()[5], devices()[3]};
  const Mesh mesh(some, "x");
  using Tree = std::vector<Array>;
  auto f = shard_map([](Tree t) { return psum(t, "x"); },
                     {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
  const Tree out = f(Tree{counting({3}), counting({6}), counting({3, 2})});
  expect_close(floats(out[0]), {3});
  expect_close(floats(out[1]), {6, 9});
  EXPECT_EQ(out[2].shape(), (Array::Dims{1, 2}));
  expect_close(floats(out[2]), {6, 9});
  EXPECT_EQ(out[1].devices(), std::set<Device>(some.begin(), some.end()));
  auto mean = shard_map(
      [](std::pair<Array, Array> p) {
        return std::tuple{pmean(p, "x"), pmax(p, "x"), pmin(p, "x")};
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
  const auto [m, high, low] = mean(std::pair{counting({3}), counting({6})});
  expect_close(floats(m.first), {1});
  expect_close(floats(high.second), {4, 5});
  expect_close(floats(low.second), {0, 1});
}

TEST(ShardMap, Behaviour_330_CustomPartitioningIsPlainWithin) {
  auto g = custom_partitioning([](Array a) { return a * 2; }, "g");
  g.def_partition(
      {.partition = [](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) -> Partition {
         ADD_FAILURE() << "called";
         return {m, [](Array a) { return a; }, {args[0].sharding}, {args[0].sharding}};
       },
       .infer_sharding_from_operands =
           [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return std::vector<Sharding>{args[0].sharding};
           }});
  for (const Axes& names : {Axes{}, Axes{"x"}}) {
    auto f = jit(shard_map(
        [&](Array a) { return g(a); },
        {.mesh = pair_mesh(), .in_specs = P("x"), .out_specs = P("x"), .axis_names = names}));
    expect_close(f(counting({8})), counting({8}) * 2);
  }
}

}  // namespace
}  // namespace tessera::testing
