// SPDX-License-Identifier: Apache-2.0
// The optimisers of the examples against optax's numbers, from
// tests/fixtures/scripts/optimizer_fixtures.py.
#include "examples/common/optimizers.h"

#include <tessera/jit.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace optimizers_test {

struct Model {
  Array w, b;
};
TESSERA_TREE(Model, w, b)

Model start() {
  return {array(std::vector<float>{0.5f, -1.25f, 2.f, 0.1f, 0.f, -0.7f}, {2, 3}),
          array(std::vector<float>{0.3f, -0.2f})};
}

std::vector<float> values_of(const Model& p) {
  std::vector<float> out = floats(p.w);
  for (float b : floats(p.b)) out.push_back(b);
  return out;
}

/// Six steps on sum(sin(w + step)) + 3 sum(b^2).
template <class Optimizer, class Change>
std::vector<float> after_six_steps(const Optimizer& optimizer, Change change) {
  Model p = start();
  auto state = optimizer.init(p);
  const auto step = jit([&](Model q, decltype(state) s, Array i) {
    return optimizer.update(q, change(Model{cos(q.w + i), 6 * q.b}), s);
  });
  for (int i = 0; i < 6; ++i) {
    auto [next, after] = step(p, state, Array(float(i)));
    p = next;
    state = after;
  }
  EXPECT_EQ(state.step.template item<int>(), 6);
  return values_of(p);
}
template <class Optimizer>
std::vector<float> after_six_steps(const Optimizer& optimizer) {
  return after_six_steps(optimizer, [](const Model& g) { return g; });
}

constexpr float kTolerance = 2e-6f;

TEST(Optimizers, GradientDescentIsThatOfOptax) {
  using optim::constant;
  expect_close(after_six_steps(optim::Sgd{.rate = constant(0.1f), .momentum = 0}),
               {0.503098011f, -1.29071736f, 1.9776262f, 0.0993511528f, -0.00239364058f,
                -0.721806228f, 0.00122879969f, -0.000819199951f},
               kTolerance);
  expect_close(after_six_steps(optim::Sgd{.rate = constant(0.1f), .momentum = 0.9f}),
               {0.516562998f, -1.90968609f, 2.38778162f, -0.0969020352f, -0.253447145f,
                -1.29070735f, 0.117690593f, -0.0784603953f},
               kTolerance);
  expect_close(
      after_six_steps(optim::Sgd{.rate = constant(0.1f), .momentum = 0.8f, .nesterov = true}),
      {0.494035542f, -1.80791521f, 2.13551593f, -0.038601473f, -0.177586496f, -1.15450609f,
       0.0136604011f, -0.00910693407f},
      kTolerance);
}

TEST(Optimizers, AdamIsThatOfOptax) {
  using optim::AdamW, optim::constant;
  expect_close(after_six_steps(
                   AdamW{.rate = constant(0.05f), .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f}),
               {0.466727138f, -1.42411506f, 2.14693713f, 0.0278231315f, -0.0813471675f,
                -0.840154946f, 0.0235559493f, 0.0476730801f},
               kTolerance);
  expect_close(after_six_steps(AdamW{.rate = constant(0.05f), .beta2 = 0.99f, .decay = 0.1f}),
               {0.438161016f, -1.3971231f, 2.10461903f, 0.00665141549f, -0.100160539f,
                -0.837010443f, 0.0130572915f, 0.0592257157f},
               kTolerance);
  // Vectors don't decay.
  expect_close(after_six_steps(AdamW{.rate = constant(0.05f),
                                     .decay = 0.3f,
                                     .decays = [](const Array& p) { return p.ndim() > 1; }}),
               {0.41313535f, -1.31664646f, 1.98818803f, 0.00556107471f, -0.0952251107f,
                -0.789636433f, 0.018041756f, 0.0574984401f},
               kTolerance);
  expect_close(
      after_six_steps(AdamW{.rate = optim::warmup_cosine(0.2f, 2, 6, 0.1f), .decay = 0.01f}),
      {0.531204998f, -1.7019918f, 2.34544611f, -0.0186071843f, -0.154178277f, -1.06703508f,
       -0.1990567f, 0.195693344f},
      kTolerance);
}

TEST(Optimizers, GradientsAreClippedAsByOptax) {
  expect_close(after_six_steps(optim::Sgd{.rate = optim::constant(0.1f)},
                               [](const Model& g) { return optim::clip_by_global_norm(g, 0.75f); }),
               {0.57799989f, -1.40318584f, 2.11394f, 0.12335889f, 0.00814366154f, -0.797475219f,
                -0.203221723f, 0.135481134f},
               kTolerance);
  EXPECT_NEAR(optim::global_norm(Model{full({2, 2}, 3.f), full({4}, 4.f)}).item<float>(), 10, 1e-5);
}

TEST(Optimizers, SchedulesAreThoseOfOptax) {
  const auto rates = [](const optim::Schedule& schedule) {
    std::vector<float> out;
    for (int i = 0; i < 10; ++i) out.push_back(schedule(Array(i)).item<float>());
    return out;
  };
  expect_close(rates(optim::constant(0.5f)), std::vector<float>(10, 0.5f), kTolerance);
  expect_close(rates(optim::linear(0.1f, 0.5f, 4)),
               {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, kTolerance);
  expect_close(rates(optim::cosine(0.3f, 5, 0.1f)),
               {0.300000012f, 0.274217308f, 0.206717297f, 0.123282701f, 0.0557826981f, 0.03f, 0.03f,
                0.03f, 0.03f, 0.03f},
               kTolerance);
  expect_close(rates(optim::warmup_cosine(0.2f, 3, 8, 0.1f)),
               {0.f, 0.0666666776f, 0.13333334f, 0.200000003f, 0.182811528f, 0.137811527f,
                0.0821884647f, 0.0371884666f, 0.02f, 0.02f},
               kTolerance);
}

TEST(Optimizers, StateIsShardedAsItsParametersAndMovesNothing) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const Model p{put(counting({16, 4}), mesh, P("x")), put(counting({8}), mesh, P("x"))};
  const optim::AdamW adam{.rate = optim::cosine(0.1f, 10), .decay = 0.1f};
  const auto state = adam.init(p);
  EXPECT_EQ(state.mean.w.sharding(), p.w.sharding());
  const auto step = jit([&](Model q, optim::AdamState<Model> s) {
    return adam.update(q, Model{q.w * 2, q.b + 1}, s);
  });
  EXPECT_TRUE(step.lower(p, state).compile().collectives().empty());
  const auto [next, after] = step(p, state);
  EXPECT_EQ(next.w.sharding(), p.w.sharding());
  EXPECT_EQ(after.square.b.sharding(), p.b.sharding());
  EXPECT_EQ(tree_paths(after),
            (std::vector<std::string>{".step", ".mean.w", ".mean.b", ".square.w", ".square.b"}));
}

TEST(TreeMap, TakesSeveralTreesAndNamesTheOneThatDiffers) {
  const Model a{ones({2}), ones({3})};
  const std::pair<Array, Array> other(full({2}, 2.f), full({3}, 3.f));
  const Model sum = tree_map([](Array x, Array y, Array z) { return x + y * z; }, a, other, a);
  expect_close(floats(sum.w), {3, 3});
  expect_close(floats(sum.b), {4, 4, 4});
  const std::vector<Array> three(3, Array(1.f));
  expect_error<ValueError>(
      [&] { tree_map([](Array x, Array, Array) { return x; }, a, other, three); },
      {"tree_map: the first tree has 2 arrays, and tree 3 has 3"});
  EXPECT_EQ(tree_paths(std::map<std::string, Model>{{"k", a}}),
            (std::vector<std::string>{"['k'].w", "['k'].b"}));
}

}  // namespace optimizers_test
}  // namespace tessera::testing
