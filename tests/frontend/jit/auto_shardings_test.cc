// SPDX-License-Identifier: Apache-2.0
// AUTO in in_shardings and out_shardings: the compiler chooses.
#include <tessera/sharding/sharding_tree.h>

#include <string>

#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace auto_shardings_test {

Array network(Array x, Array w, Array v) { return matmul(tanh(matmul(x, w)), v); }

TEST(AutoShardings, AreChosenWithWhatIsStated) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  // The second matrix is split by what is summed over: the first had best make that.
  auto f = jit(network, {.in_shardings = tree(AUTO(mesh), AUTO(mesh), NamedSharding(mesh, P("y"))),
                         .out_shardings = AUTO(mesh)});
  const auto compiled =
      f.lower(shape_dtype_struct({16, 64}, DType::f32), shape_dtype_struct({64, 256}, DType::f32),
              shape_dtype_struct({256, 64}, DType::f32))
          .compile();
  const auto shardings = compiled.input_shardings();
  ASSERT_EQ(shardings.size(), 3u);
  EXPECT_EQ(shardings[2], NamedSharding(mesh, P("y")));
  EXPECT_EQ(shardings[1].shard_shape({64, 256})[1], 64) << shardings[1].to_string();
  // Partial sums are all that moves.
  for (const auto& c : compiled.collectives()) {
    EXPECT_TRUE(c.kind == "all-reduce" || c.kind == "reduce-scatter") << compiled.as_text();
  }
  const Array x = counting({16, 64}, 0.01), w = counting({64, 256}, 1e-4),
              v = counting({256, 64}, 1e-4);
  const Array y = compiled(device_put(x, shardings[0]), device_put(w, shardings[1]),
                           device_put(v, shardings[2]));
  EXPECT_EQ(y.sharding(), compiled.output_shardings().at(0));
  expect_close(y, network(x, w, v), 1e-4);
}

TEST(AutoShardings, OfAllThatThereIsNothingMoves) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit(network, {.in_shardings = AUTO(mesh), .out_shardings = AUTO(mesh)});
  const auto compiled =
      f.lower(shape_dtype_struct({64, 32}, DType::f32), shape_dtype_struct({32, 32}, DType::f32),
              shape_dtype_struct({32, 32}, DType::f32))
          .compile();
  EXPECT_TRUE(compiled.collectives().empty());
  // The work is shared out, nevertheless.
  EXPECT_EQ(compiled.input_shardings()[0].shard_shape({64, 32})[0], 8);
}

TEST(AutoShardings, ACallMovesItsArguments) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit(network, {.in_shardings = AUTO(mesh)});
  const Array x = counting({64, 32}, 0.01), w = counting({32, 32}, 1e-3);
  const Array expected = network(x, w, w);
  expect_close(f(x, w, w), expected, 1e-4);
  expect_close(f(device_put(x, NamedSharding(mesh, P(nullptr, "x"))),
                 device_put(w, NamedSharding(mesh, P("x"))), w),
               expected, 1e-4);
}

TEST(AutoShardings, FollowTheAnnotationsWithoutASolver) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a, Array b) { return a + b; },
               {.in_shardings = tree(AUTO(mesh), NamedSharding(mesh, P("x"))),
                .layouts = Layouts::propagated});
  const auto compiled =
      f.lower(shape_dtype_struct({16, 4}, DType::f32), shape_dtype_struct({16, 4}, DType::f32))
          .compile();
  EXPECT_EQ(compiled.input_shardings()[0].shard_shape({16, 4}), (std::vector<std::int64_t>{2, 4}));
  EXPECT_TRUE(compiled.collectives().empty());
}

TEST(AutoShardings, TakeTheMeshInScope) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = jit([](Array a) { return a * 2.0f; }, {.in_shardings = AUTO, .out_shardings = AUTO});
  {
    MeshScope scope(mesh);
    expect_close(f(counting({16})), counting({16}, 2), 1e-6);
  }
  const std::string text = expect_error<RuntimeError>([&] { (void)f(counting({16})); },
                                                      {"AUTO", "no mesh is in scope", kNear});
  EXPECT_NE(text.find("AUTO(mesh)"), std::string::npos) << text;
}

TEST(AutoShardings, AreRefusedWhereNothingIsCompiled) {
  const Mesh mesh = mesh_of({{"x", 8}});
  expect_error<ValueError>([&] { (void)device_put(counting({16}), AUTO(mesh)); },
                           {"AUTO", "in_shardings and out_shardings", kNear});
}

TEST(AutoShardings, WithinAnotherFunctionTheOuterOneDecides) {
  const Mesh mesh = mesh_of({{"x", 8}});
  auto inner = jit([](Array a) { return a * 2.0f; }, {.in_shardings = AUTO(mesh)});
  auto outer = jit([&](Array a) { return inner(a) + 1.0f; });
  const Array a = device_put(counting({16}), NamedSharding(mesh, P("x")));
  EXPECT_EQ(outer(a).sharding(), a.sharding());
}

}  // namespace auto_shardings_test
}  // namespace tessera::testing
