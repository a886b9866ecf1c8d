// SPDX-License-Identifier: Apache-2.0
// optimization_barrier: keeps what the optimiser would join, and goes through all transformations.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::optimization_barriers {
namespace {

TEST(OptimizationBarrier, GivesTheTreeAsItIs) {
  const Array x = counting({4});
  const auto [a, rest] = optimization_barrier(std::pair(x, std::vector<Array>{x * 2.0f, x + 1.0f}));
  expect_close(a, x);
  expect_close(rest[0], x * 2.0f);
  expect_close(rest[1], x + 1.0f);
  EXPECT_TRUE(optimization_barrier(std::vector<Array>{}).empty());
}

TEST(OptimizationBarrier, KeepsApartWhatIsEqual) {
  const auto f = [](bool apart) {
    return jit([=](Array x) {
      const Array again = apart ? optimization_barrier(x) : x;
      return exp(x) + exp(again);
    });
  };
  const Array x = counting({4}, 0.1f);
  EXPECT_EQ(count(f(false).lower(x).compile().as_text(), " exponential("), 1u);
  const std::string text = f(true).lower(x).compile().as_text();
  EXPECT_EQ(count(text, " exponential("), 2u) << text;
  EXPECT_EQ(count(text, " opt-barrier("), 1u) << text;
  expect_close(f(true)(x), 2.0f * exp(x));
}

TEST(OptimizationBarrier, GoesThroughTransformations) {
  const auto f = [](Array x) { return sum(sin(optimization_barrier(x * x))); };
  const auto plain = [](Array x) { return sum(sin(x * x)); };
  const Array x = counting({4}, 0.3f);
  expect_close(grad(f)(x), grad(plain)(x));
  expect_close(hessian(f)(x), hessian(plain)(x));
  expect_close(vmap(grad(f))(reshape(x, {2, 2})), vmap(grad(plain))(reshape(x, {2, 2})));
  const Mesh mesh = mesh_of({{"x", 4}});
  const auto mapped = shard_map([](Array v) { return psum(optimization_barrier(v), "x"); },
                                {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
  expect_close(mapped(x), reshape(sum(x), {1}));
  EXPECT_EQ(jit([](Array v) { return optimization_barrier(v); })(put(x, mesh, P("x"))).sharding(),
            Sharding(NamedSharding(mesh, P("x"))));
}

}  // namespace
}  // namespace tessera::testing::optimization_barriers
