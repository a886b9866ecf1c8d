// SPDX-License-Identifier: Apache-2.0
// Errors for axes that the mesh lacks and for missing meshes, and when they are thrown.
#include <tessera/tessera.h>

#include <map>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using NamedParams = std::map<std::string, Array>;

class MissingAxes : public ::testing::Test {
 protected:
  const Mesh mesh = mesh_of({{"data", 2}, {"model", 4}});
  int runs = 0;
  NamedParams params{{"b", ones({8})}, {"w", ones({8, 8})}};
};

TEST_F(MissingAxes, OfInShardingsNameTheArgument) {
  const MeshScope scope(mesh);
  auto f = jit(
      [&](NamedParams p, Array x) {
        ++runs;
        return p.at("w") + x;
      },
      {.in_shardings = tree(dict({{"b", P()}, {"w", P("data", "modle")}}), P()), .name = "f"});
  const std::vector<std::string> parts{"in_shardings",    "argument 0['w'] of 'f'",
                                       "axis 'modle'",    "PartitionSpec('data', 'modle')",
                                       "'data', 'model'", kNear};
  expect_error<ShardingError>([&] { f(params, ones({8, 8})); }, parts);
  expect_error<ShardingError>([&] { (void)f.lower(params, ones({8, 8})); }, parts);
  expect_error<ShardingError>(
      [&] { jit([&](NamedParams p) {
              return f(p, ones({8, 8}));
            })(params); },
      {"in_shardings", "argument 0['w'] of 'f'", "axis 'modle'"});
  EXPECT_EQ(runs, 0);
}

TEST_F(MissingAxes, OfOutShardingsNameTheResult) {
  const MeshScope scope(mesh);
  auto f = jit(
      [&](Array x) {
        ++runs;
        return std::pair{x, x + 1};
      },
      {.out_shardings = tree(P("data"), P("z")), .name = "f"});
  const std::vector<std::string> parts{"out_shardings[1] of 'f'", "axis 'z'", "PartitionSpec('z')",
                                       "'data', 'model'", kNear};
  expect_error<ShardingError>([&] { f(ones({8})); }, parts);
  expect_error<ShardingError>([&] { (void)f.lower(ones({8})); }, parts);
  expect_error<ShardingError>([&] { jit([&](Array x) { return f(x); })(ones({8})); },
                              {"out_shardings[1] of 'f'", "axis 'z'"});
  auto all = pjit(
      [&](Array x) {
        ++runs;
        return x;
      },
      {.out_shardings = P("z"), .name = "g"});
  expect_error<ShardingError>([&] { all(ones({8})); },
                              {"pjit out_shardings of 'g'", "axis 'z'", kNear});
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(f.trace_count() + all.trace_count(), 0);
}

TEST_F(MissingAxes, OfConstraintsNameTheArray) {
  const MeshScope scope(mesh);
  auto f = jit([](NamedParams p) {
    return with_sharding_constraint(p, dict({{"b", P("data")}, {"w", P("z")}})).at("w");
  });
  expect_error<ShardingError>([&] { f(params); }, {"with_sharding_constraint", "argument['w']",
                                                   "axis 'z'", "'data', 'model'", kNear});
  expect_error<ShardingError>([&] { with_sharding_constraint(params.at("b"), P("z")); },
                              {"with_sharding_constraint", "axis 'z'", kNear});
}

TEST_F(MissingAxes, ElsewhereNameWhatIsPlaced) {
  const MeshScope scope(mesh);
  expect_error<ShardingError>(
      [&] {
        device_put(params, dict({{"b", P("z")}, {"w", P()}}));
      },
      {"device_put's argument['b']", "axis 'z'", "'data', 'model'", kNear});
  auto f = jit([](NamedParams p) { return p.at("w"); }, {.name = "f", .arg_names = {"params"}});
  expect_error<ShardingError>(
      [&] {
        (void)f.lower(NamedParams{{"w", shape_dtype_struct({8}, f32, P("z"))}});
      },
      {"params['w'] of 'f'", "axis 'z'", kNear});
  auto u =
      jit([](Array x) { return x; }, {.out_shardings = P().with_unreduced({"z"}), .name = "u"});
  expect_error<ShardingError>([&] { u(ones({8})); }, {"out_shardings of 'u'", "axis 'z'"});
}

TEST_F(MissingAxes, WithoutAMeshTheFunctionDoesntRun) {
  auto out = pjit(
      [&](Array x) {
        ++runs;
        return x;
      },
      {.out_shardings = P("data")});
  auto in = pjit(
      [&](Array x) {
        ++runs;
        return x;
      },
      {.in_shardings = P("data")});
  auto deep = jit(
      [&](Array x) {
        ++runs;
        return std::pair{x, x};
      },
      {.out_shardings = tree(UNSPECIFIED, P("data"))});
  const Array x = ones({8});
  expect_error<RuntimeError>(
      [&] { out(x); }, {"pjit out_shardings", "no mesh is in scope", "missing_axes_test.cc:"});
  expect_error<RuntimeError>([&] { in(x); },
                             {"pjit in_shardings", "argument 0", "no mesh is in scope"});
  expect_error<RuntimeError>([&] { deep(x); }, {"jit out_shardings[1]", "no mesh is in scope"});
  expect_error<RuntimeError>([&] { (void)out.lower(x); }, {"pjit out_shardings", "no mesh"});
  expect_error<RuntimeError>([&] { jit([&](Array a) { return deep(a); })(x); },
                             {"jit out_shardings[1]", "no mesh"});
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(out.trace_count() + in.trace_count() + deep.trace_count(), 0);
  const MeshScope scope(mesh);
  EXPECT_EQ(floats(out(x)), floats(x));
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace tessera::testing
