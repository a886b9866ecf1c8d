// SPDX-License-Identifier: Apache-2.0
// Derivatives of random numbers with respect to the parameters of their distributions. The numbers
// are those of jax.grad on jax.random.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace random_gradients {

using testing::expect_error;
using testing::kNear;

using Draw = std::function<Array(Array)>;

/// The derivative of the sum of what is drawn.
float slope(const Draw& draw, float at) {
  return grad([&](Array p) { return sum(draw(p)); })(Array(at)).item<float>();
}

TEST(RandomGradients, TruncatedNormalMovesWithItsBounds) {
  const Array key = random::key(0);
  EXPECT_NEAR(slope([&](Array p) { return random::truncated_normal(key, -p, p); }, 3.0f),
              0.036436517f, 2e-6f);
  // JAX: jax.grad(lambda p: jax.random.truncated_normal(jax.random.key(1), p, 2., (3,)).sum())(-1.)
  EXPECT_NEAR(
      slope([](Array p) { return random::truncated_normal(random::key(1), p, 2.0, {3}); }, -1.0f),
      0.9686749f, 2e-5f);
}

TEST(RandomGradients, UniformMovesWithItsBounds) {
  // Bounds that are known while tracing and ones that aren't.
  EXPECT_NEAR(
      slope([](Array p) { return random::uniform(random::key(1), {3}, f32, p, 2.0); }, -1.0f),
      1.5816963f, 2e-6f);
  EXPECT_NEAR(
      slope([](Array p) { return random::uniform(random::key(1), {3}, f32, -1.0, p); }, 2.0f),
      1.4183037f, 2e-6f);
}

TEST(RandomGradients, NextafterHasNone) {
  expect_error<NotImplementedError>(
      [] { grad([](Array x) { return nextafter(x, 1.0f); })(Array(0.5f)); },
      {"can't differentiate nextafter", "stop_gradient", kNear});
  EXPECT_EQ(grad([](Array x) { return x * nextafter(stop_gradient(x), 1.0f); })(Array(0.5f))
                .item<float>(),
            std::nextafter(0.5f, 1.0f));
}

}  // namespace random_gradients
}  // namespace tessera
