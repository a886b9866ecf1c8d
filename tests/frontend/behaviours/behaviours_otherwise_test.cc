// SPDX-License-Identifier: Apache-2.0
// Behaviours of docs/reference/behaviours.md that are had in another way than in JAX: decorators,
// names of arguments, devices of functions, keys, pairs of sends and receives.
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>
#include <tessera/ops.h>
#include <tessera/pjit.h>
#include <tessera/random.h>
#include <tessera/shard_map.h>
#include <tessera/vmap.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

TEST(Otherwise, Behaviour_013_FunctionsUnderAMesh) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto f = jit([](Array v) { return with_sharding_constraint(v * 2, P("x")); });
  const auto under = [&](Array v) {
    const MeshScope scope(mesh);
    return f(v);
  };
  EXPECT_EQ(under(counting({8})).sharding(), NamedSharding(mesh, P("x")));
  EXPECT_TRUE(current_mesh().empty());
}

TEST(Otherwise, Behaviour_014_BothScopesOfMeshesServePjit) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto f =
      pjit([](Array v) { return v + 1; }, {.in_shardings = P("x"), .out_shardings = P("x")});
  const NamedSharding wanted(mesh, P("x"));
  {
    const MeshScope scope(mesh);
    EXPECT_EQ(f(counting({8})).sharding(), wanted);
  }
  {
    const set_mesh scope(mesh);
    EXPECT_EQ(f(counting({8})).sharding(), wanted);
  }
}

TEST(Otherwise, Behaviour_020_TheMeshInScopeWhileTracing) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const MeshScope scope(mesh);
  Mesh seen;
  (void)jit([&](Array v) {
    seen = current_mesh();
    return v;
  })(counting({8}));
  EXPECT_EQ(seen, mesh);
}

TEST(Otherwise, Behaviour_138_ArraysOnSeveralDevicesAreCommitted) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  const Array x = device_put(counting({8}), rows);
  const auto all = [&](const Array& a) { return a.devices().size() == 8 && a.committed(); };
  EXPECT_TRUE(all(x));
  EXPECT_TRUE(all(x + 1));
  EXPECT_TRUE(all(copy(x)));
  EXPECT_TRUE(all(jit([] { return zeros({8}); }, {.out_shardings = rows})()));
  EXPECT_TRUE(all(jit([](Array v) { return v; }, {.in_shardings = rows})(counting({8}))));
  EXPECT_TRUE(all(make_array_from_callback({8}, rows, [](const Index&) { return ones({1}); })));
}

TEST(Otherwise, Behaviour_141_DevicesOfFunctionsAndInnerConstraints) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto f =
      jit([&](Array v) { return with_sharding_constraint(v, NamedSharding(mesh, P("x"))); },
          {.device = devices()[2]});
  expect_error<ValueError>([&] { (void)f(ones({8})); },
                           {"[2]", "[0,1,2,3,4,5,6,7]", "the sharding used inside", kNear});
}

TEST(Otherwise, Behaviour_152_ShardingsByTheNamesOfArguments) {
  const MeshScope scope(mesh_of({{"x", 8}}));
  const auto f = [](Array a, Array b) { return std::pair(a, b); };
  const auto g = jit(f, {.in_shardings = dict({{"b", P("x")}}), .arg_names = {"a", "b"}});
  const auto [a, b] = g(counting({8}), counting({8}));
  EXPECT_EQ(b.sharding(), NamedSharding(current_mesh(), P("x")));
  const auto wrong = jit(f, {.in_shardings = dict({{"c", P("x")}}), .arg_names = {"a", "b"}});
  expect_error<ValueError>([&] { (void)wrong(counting({8}), counting({8})); },
                           {"'c'", "'a', 'b'", kNear});
}

TEST(Otherwise, Behaviour_156_TheDeviceOfAFunction) {
  const Device there = devices()[3];
  const auto f = jit([](Array v) { return sum(v); }, {.device = there});
  const Mesh mesh = mesh_of({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  for (const Array& x : {counting({8}), device_put(counting({8}), devices()[1]),
                         device_put(counting({8}), there), device_put(counting({8}), rows)}) {
    const Array y = f(x);
    EXPECT_EQ(y.device(), there);
    EXPECT_TRUE(y.committed());
    EXPECT_EQ(y.item<float>(), 28);
  }
  EXPECT_EQ(f.cache_size(), 1);
  EXPECT_EQ(jit([] { return ones({2}); }, {.device = there})().device(), there);
  const auto compiled = f.lower(shape_dtype_struct({8}, f32, rows)).compile();
  EXPECT_EQ(compiled.input_shardings()[0], SingleDeviceSharding(there));
  EXPECT_EQ(compiled(device_put(counting({8}), there)).device(), there);

  expect_error<ValueError>(
      [&] { (void)jit([](Array v) { return v; }, {.in_shardings = rows, .device = there}); },
      {"device (cpu:3)", "in_shardings", kNear});
  expect_error<ValueError>(
      [&] { (void)jit([](Array v) { return v; }, {.out_shardings = rows, .device = there}); },
      {"device (cpu:3)", "out_shardings", kNear});
  {
    const MeshScope scope(mesh);
    expect_error<ValueError>([&] { (void)f(ones({8})); }, {"cpu:3", "Mesh('x': 8", kNear});
  }
  expect_error<ValueError>([&] { (void)jit([&](Array v) { return f(v); })(ones({8})); },
                           {"cpu:3", "traced", kNear});
}

TEST(Otherwise, Behaviour_209_ArraysOfKeys) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const Array keys = random::split(random::key(7), 8);
  ASSERT_EQ(keys.shape(), (std::vector<std::int64_t>{8, 2}));
  const Array split = put(keys, mesh, P("x"));
  const auto draw = jit(vmap([](Array k) { return random::normal(k, {4}); }));
  EXPECT_EQ(draw(split).sharding(), NamedSharding(mesh, P("x")));
  EXPECT_TRUE(draw.lower(split).compile().collectives().empty());
  EXPECT_EQ(floats(draw(split)), floats(draw(keys)));
  const auto turned = jit([&](Array k) {
    return with_sharding_constraint(transpose(reshape(k, {4, 2, 2}), {1, 0, 2}),
                                    NamedSharding(mesh, P(nullptr, "x")));
  });
  EXPECT_EQ(turned(split).sharding(), NamedSharding(mesh, P(nullptr, "x")));
  EXPECT_EQ(turned(split).to_vector<std::uint32_t>(), turned(keys).to_vector<std::uint32_t>());
}

TEST(Otherwise, Behaviour_248_GathersByNameNeedAShardMap) {
  const Array x = put(counting({8}), mesh_of({{"x", 8}}), P("x"));
  expect_error<ValueError>([&] { (void)all_gather(x, "x"); },
                           {"all_gather", "'x'", "shard_map", kNear});
  expect_error<ValueError>([&] { (void)jit([](Array v) { return all_gather(v, "x"); })(x); },
                           {"all_gather", "'x'", "shard_map", kNear});
}

TEST(Otherwise, Behaviour_265_CallbacksWithoutARule) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto twice = custom_partitioning([](Array v) { return v * 2; }, "twice_without_a_rule");
  twice.def_partition(
      {.partition =
           [](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             const Sharding rows = args[0].sharding;
             return Partition{m, [](Array part) { return part * 2; }, {rows}, {rows}};
           },
       .infer_sharding_from_operands =
           [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return std::vector<Sharding>{args[0].sharding};
           }});
  const Array x = put(counting({8}), mesh, P("x"));
  const Array y = jit([&](Array v) { return twice(v); })(x);
  EXPECT_EQ(y.sharding(), NamedSharding(mesh, P("x")));
  EXPECT_EQ(floats(y), floats(x * 2));
}

TEST(Otherwise, Behaviour_295_PairsOfSendAndReceive) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const auto moved = [&](std::vector<std::pair<std::int64_t, std::int64_t>> pairs) {
    return shard_map([pairs](Array v) { return ppermute(v, "x", pairs); },
                     {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(counting({4}));
  };
  // A cycle needs no order of sends and receives; who is sent nothing has zeros.
  EXPECT_EQ(floats(moved({{0, 1}, {1, 0}, {2, 3}})), (std::vector<float>{1, 0, 0, 2}));
  expect_error<ValueError>([&] { (void)moved({{0, 1}, {0, 2}}); }, {"unique", "(0, 2)", kNear});
  expect_error<ValueError>([&] { (void)moved({{0, 1}, {2, 1}}); }, {"unique", "(2, 1)", kNear});
  expect_error<ValueError>([&] { (void)moved({{0, 4}}); }, {"(0, 4)", "0 to 3", kNear});
}

}  // namespace
}  // namespace tessera::testing
