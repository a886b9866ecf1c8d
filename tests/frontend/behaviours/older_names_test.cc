// SPDX-License-Identifier: Apache-2.0
// pjit's older arguments and names, and arguments by name.
#include <tessera/pjit.h>

#include <gtest/gtest.h>

#include <tessera/ops/elementwise.h>
#include <tessera/shard_map.h>
#include <tessera/sharding/op_sharding.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

Mesh mesh_of_eight() { return make_mesh({{"x", 4}, {"y", 2}}); }
Array placed_square(const Mesh& mesh, const P& spec) {
  return device_put(counting({8, 8}), NamedSharding(mesh, spec));
}

TEST(OlderNames, AxisResourcesAreShardings) {
  const Mesh mesh = mesh_of_eight();
  auto f = pjit([](Array a, Array b) { return a + b; }, {.in_axis_resources = tree(P("x"), nullptr),
                                                         .out_axis_resources = P(nullptr, "y")});
  const MeshScope scope(mesh);
  const Array r = f(counting({8, 8}), counting({8, 8}));
  EXPECT_EQ(r.sharding(), NamedSharding(mesh, P(nullptr, "y")));
  expect_close(r, counting({8, 8}, 2));
  const auto in = f.lower(counting({8, 8}), counting({8, 8})).compile().input_shardings();
  EXPECT_EQ(in[0], NamedSharding(mesh, P("x")));
  EXPECT_EQ(in[1], NamedSharding(mesh, P()));
}

TEST(OlderNames, BothNamesAreAnErrorAndJitHasTheNewerOnes) {
  const auto same = [](Array a) { return a; };
  expect_error<ValueError>(
      [&] { pjit(same, {.in_shardings = P("x"), .in_axis_resources = P("y")}); },
      {"in_shardings (PartitionSpec('x'))", "in_axis_resources (PartitionSpec('y'))", "give one",
       kNear});
  expect_error<ValueError>(
      [&] { pjit(same, {.out_shardings = nullptr, .out_axis_resources = P()}); },
      {"out_shardings (None)", "out_axis_resources (PartitionSpec())", kNear});
  expect_error<ValueError>(
      [&] { jit(same, {.in_axis_resources = P("x")}); },
      {"jit has no in_axis_resources", "argument of pjit", "in_shardings", kNear});
}

TEST(OlderNames, Behaviour_360_TheMeshIsLookedForBeforeTheFunctionRuns) {
  int runs = 0;
  auto f = pjit(
      [&runs](Array a) {
        ++runs;
        return a;
      },
      {.name = "step", .in_axis_resources = nullptr, .out_axis_resources = nullptr});
  expect_error<RuntimeError>([&] { f(counting({8})); }, {"pjit of 'step' with in_axis_resources",
                                                         "no mesh is in scope", "MeshScope"});
  auto g = pjit(
      [&runs](Array a) {
        ++runs;
        return a;
      },
      {.out_shardings = P("x")});
  expect_error<RuntimeError>([&] { g(counting({8})); },
                             {"pjit out_shardings of 'jit_fn'", "no mesh is in scope"});
  EXPECT_EQ(runs, 0);
}

TEST(OlderNames, UndefinedAxesNameTheArgumentAndTheOption) {
  const MeshScope scope(mesh_of_eight());
  const auto same = [](Array a) { return a; };
  const Array x = counting({8, 8});
  expect_error<ShardingError>(
      [&] { pjit(same, {.arg_names = {"batch"}, .in_axis_resources = P("z")})(x); },
      {"pjit in_axis_resources of batch", "'z'", "PartitionSpec('z')"});
  expect_error<ShardingError>(
      [&] { pjit(same, {.in_axis_resources = nullptr, .out_axis_resources = P("z")})(x); },
      {"pjit out_axis_resources", "'z'"});
  expect_error<ShardingError>([&] { jit(same, {.in_shardings = P("z")})(x); },
                              {"jit in_shardings of argument 0", "'z'"});
  expect_error<ShardingError>(
      [&] { jit([](Array a) { return with_sharding_constraint(a, P("z")); })(x); },
      {"with_sharding_constraint", "'z'"});
}

TEST(OlderNames, Behaviour_359_FromGdaIsTheArraysOwnSharding) {
  const Mesh mesh = mesh_of_eight();
  const MeshScope scope(mesh);
  const GlobalDeviceArray rows = placed_square(mesh, P("x")),
                          columns = placed_square(mesh, P(nullptr, "y"));
  auto f = pjit([](Array a, Array b) { return std::pair(a * 2, b * 2); },
                {.in_axis_resources = FROM_GDA, .out_axis_resources = UNSPECIFIED});
  const auto [a, b] = f(rows, columns);
  EXPECT_EQ(a.sharding(), rows.sharding());
  EXPECT_EQ(b.sharding(), columns.sharding());
  // An array that isn't on a mesh has no sharding to take.
  const std::vector<std::string> facts{"argument 1 of", "f32[8,8]", "FROM_GDA", "in_axis_resources",
                                       "device_put it on a mesh"};
  std::vector<std::string> plain = facts;
  plain.push_back("not placed on devices");
  expect_error<ValueError>([&] { f(rows, counting({8, 8})); }, plain);
  std::vector<std::string> single = facts;
  single.push_back("SingleDeviceSharding");
  const Array on_one = device_put(counting({8, 8}), SingleDeviceSharding(devices()[0]));
  expect_error<ValueError>([&] { f(rows, on_one); }, single);
  // Another spec than the array's: both are named.
  auto g =
      pjit([](Array v) { return v; }, {.in_axis_resources = P("y"), .out_axis_resources = nullptr});
  expect_error<ValueError>([&] { g(rows); },
                           {"PartitionSpec('x')", "PartitionSpec('y')", "FROM_GDA"});
  expect_error<ValueError>(
      [&] { pjit([](Array v) { return v; }, {.out_axis_resources = tree(FROM_GDA)}); },
      {"out_axis_resources[0]", "FROM_GDA", "a result has none", kNear});
  EXPECT_EQ(ShardingTree(FROM_GDA).to_string(), "FROM_GDA");
  EXPECT_TRUE(parsed_pspec_of(rows) ==
              ParsedPartitionSpec::from_user_input(P("x"), "GDA mesh_axes"));
  expect_error<ValueError>([&] { (void)parsed_pspec_of(on_one); },
                           {"f32[8,8] isn't placed on a mesh", "SingleDeviceSharding", kNear});
}

TEST(OlderNames, UnspecifiedNoneAndTheEmptySpec) {
  const Mesh mesh = mesh_of_eight();
  const MeshScope scope(mesh);
  const auto twice = [](Array a) { return a * 2; };
  const Array rows = placed_square(mesh, P("x"));
  const Sharding everywhere = NamedSharding(mesh, P());
  const auto result = [&](auto f) { return f(rows).sharding(); };
  // jit: None is UNSPECIFIED, P() replicates.
  EXPECT_EQ(result(jit(twice, {.out_shardings = nullptr})), rows.sharding());
  EXPECT_EQ(result(jit(twice, {.out_shardings = UNSPECIFIED})), rows.sharding());
  EXPECT_EQ(result(jit(twice, {.out_shardings = P()})), everywhere);
  // pjit: None and P() replicate.
  EXPECT_EQ(result(pjit(twice, {.out_shardings = nullptr})), everywhere);
  EXPECT_EQ(result(pjit(twice, {.out_shardings = UNSPECIFIED})), rows.sharding());
  EXPECT_EQ(result(pjit(twice, {.out_shardings = P()})), everywhere);
}

TEST(OlderNames, Behaviour_353_NestedCallsKeepTheGlobalShape) {
  const MeshScope scope(make_mesh({{"x", 8}}));
  std::vector<std::vector<std::int64_t>> seen;
  auto inner = pjit(
      [&](Array a) {
        seen.push_back(a.shape());
        return a + 1;
      },
      {.in_axis_resources = P("x"), .out_axis_resources = P("x")});
  auto outer = pjit(
      [&](Array a) {
        seen.push_back(a.shape());
        return inner(a * 2);
      },
      {.in_axis_resources = P("x"), .out_axis_resources = P("x")});
  const Array r = outer(counting({16}));
  EXPECT_EQ(seen, (std::vector<std::vector<std::int64_t>>{{16}, {16}}));
  EXPECT_EQ(r.shape(), (std::vector<std::int64_t>{16}));
  EXPECT_EQ(r.addressable_shards()[0].data.shape(), (std::vector<std::int64_t>{2}));
}

TEST(OlderNames, Behaviour_361_AxesThatAShardMapUses) {
  const Mesh mesh = mesh_of_eight();
  auto inner =
      pjit([](Array a) { return a * 2; }, {.in_shardings = P("x"), .out_shardings = P("x")});
  auto outer = shard_map([&](Array a) { return inner(a); },
                         {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  const MeshScope scope(mesh);
  expect_error<ShardingError>(
      [&] {
        outer(counting({8, 8}));
      },
      {"argument 0 of", "PartitionSpec('x')", "'x', which is manual here"});
}

TEST(ArgumentsByName, ShardingsAndDonation) {
  const Mesh mesh = mesh_of_eight();
  auto f = jit([](Array x, int n, Array w) { return std::pair(x * n, w + 1); }, static_argnums<1>,
               {.in_shardings = dict({{"w", NamedSharding(mesh, P("y"))}}),
                .arg_names = {"x", "n", "w"},
                .donate_argnames = {"x"}});
  const Array x = placed_square(mesh, P("x")), w = placed_square(mesh, P("y"));
  const auto compiled = f.lower(x, 3, w).compile();
  EXPECT_EQ(compiled.input_shardings()[0], x.sharding());
  EXPECT_EQ(compiled.input_shardings()[1], NamedSharding(mesh, P("y")));
  EXPECT_EQ(f.lower(x, 3, w).donate_argnums(), (std::vector<int>{0}));
  f(x, 3, w);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(w.is_deleted());
}

TEST(ArgumentsByName, Errors) {
  const Mesh mesh = mesh_of_eight();
  const auto f = [](Array x, int n) { return x * n; };
  const Array x = counting({8});
  expect_error<ValueError>(
      [&] {
        jit(f, static_argnums<1>, {.arg_names = {"x", "n"}, .donate_argnames = {"y"}});
      },
      {"jit: donate_argnames holds 'y'", "arg_names has 'x', 'n'", kNear});
  expect_error<ValueError>([&] { jit(f, static_argnums<1>, {.donate_argnames = {"x"}}); },
                           {"'x'", "arg_names, which must list the names, is empty", kNear});
  expect_error<ValueError>(
      [&] {
        jit(f, static_argnums<1>, {.arg_names = {"x", "n"}, .donate_argnames = {"n"}})(x, 2);
      },
      {"holds n, which is no traced argument"});
  const NamedSharding s(mesh, P("x"));
  expect_error<ValueError>(
      [&] {
        jit(f, static_argnums<1>, {.in_shardings = dict({{"y", s}}), .arg_names = {"x", "n"}})(x,
                                                                                               2);
      },
      {"in_shardings names the argument 'y'", "arg_names has 'x', 'n'", kNear});
  expect_error<ValueError>(
      [&] {
        jit(f, static_argnums<1>, {.in_shardings = dict({{"n", s}}), .arg_names = {"x", "n"}})(x,
                                                                                               2);
      },
      {"names 'n', which is a static argument", kNear});
  expect_error<ValueError>(
      [&] {
        jit(f, static_argnums<1>, {.in_shardings = dict({{"x", s}})})(x, 2);
      },
      {"names the argument 'x'", "is empty", kNear});
}

TEST(UnreducedArrays, PrintTheirPartsAndShards) {
  const Mesh mesh = mesh_of_eight();
  const NamedSharding sums(mesh, P(nullptr, "y").with_unreduced({"x"}));
  EXPECT_EQ(sums.to_string(),
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), "
            "spec=PartitionSpec(None, 'y', unreduced={'x'}), memory_kind=device)");
  const Array a = jit([](Array x) { return x * 1; }, {.out_shardings = sums})(counting({8, 8}));
  EXPECT_EQ(a.sharding(), sums);
  const std::vector<Shard> shards = a.addressable_shards();
  ASSERT_EQ(shards.size(), 8u);
  // The terms of one part add up to it.
  std::vector<float> sum(32, 0);
  for (const Shard& s : shards) {
    EXPECT_EQ(s.data.shape(), (std::vector<std::int64_t>{8, 4}));
    if (s.index[1].start.value_or(0) != 0) continue;
    const std::vector<float> term = floats(s.data);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(sum[i], float(i / 4 * 8 + i % 4));
  }
  // What is printed is the sum.
  EXPECT_EQ(to_string(a), to_string(counting({8, 8})));
}

}  // namespace
}  // namespace tessera::testing
