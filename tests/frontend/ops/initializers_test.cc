// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters: the numbers that JAX gives for the same key.
#include <gtest/gtest.h>

#include <cmath>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace initializer_tests {

using initializers::Distribution;
using initializers::FanMode;
using initializers::Initializer;
using testing::expect_error;
using testing::expect_fixture;
using testing::floats;
using testing::kNear;

const std::vector<std::int64_t> kMatrix{5, 7}, kKernel{3, 2, 4, 5};

struct InitializerCase {
  std::string name;
  Initializer init;
  std::vector<std::int64_t> shape;
  DType dtype = f32;
  float tolerance = 0;
};

std::vector<InitializerCase> cases() {
  using namespace initializers;
  std::vector<InitializerCase> out = {
      {"constant", constant(0.75), {2, 3}},
      {"uniform", uniform(), kMatrix},
      {"uniform_scale", uniform(3), {5}, bf16},
      {"normal", normal(), kMatrix},
      {"normal_complex", normal(2), {5}, c64},
      {"truncated_normal", truncated_normal(), kMatrix},
      {"truncated_normal_bounds", truncated_normal(0.5, -1, 3), kMatrix},
      {"glorot_uniform", xavier_uniform(), kMatrix},
      {"glorot_normal", xavier_normal(), kMatrix},
      {"lecun_uniform", lecun_uniform(), kMatrix},
      {"lecun_normal", lecun_normal(), kMatrix},
      {"he_uniform", kaiming_uniform(), kMatrix},
      {"he_normal", kaiming_normal(), kMatrix},
      {"glorot_uniform_kernel", glorot_uniform(), kKernel},
      {"glorot_normal_kernel", glorot_normal(), kKernel},
      {"lecun_uniform_kernel", lecun_uniform(), kKernel},
      {"lecun_normal_kernel", lecun_normal(), kKernel},
      {"he_uniform_kernel", he_uniform(), kKernel},
      {"he_normal_kernel", he_normal(), kKernel},
      {"he_normal_bf16", he_normal(), kMatrix, bf16},
      {"he_uniform_f16", he_uniform(), kMatrix, f16},
      {"axes", glorot_normal({.in = {0}, .out = {1, 3}, .batch = {2}}), kKernel},
      {"axes_one", lecun_uniform({.in = {0}, .out = {}}), {6}},
      {"fan_in", variance_scaling(0.7, FanMode::fan_in, Distribution::normal), {3, 4, 5}},
      {"fan_out", variance_scaling(0.7, FanMode::fan_out, Distribution::normal), {3, 4, 5}},
      {"fan_avg", variance_scaling(0.7, FanMode::fan_avg, Distribution::normal), {3, 4, 5}},
      {"fan_geo_avg", variance_scaling(0.7, FanMode::fan_geo_avg, Distribution::normal), {3, 4, 5}},
  };
  // Factors are those of another implementation of LAPACK.
  out.push_back({"orthogonal", orthogonal(), {5, 3}, f32, 3e-6f});
  out.push_back({"orthogonal_wide", orthogonal(2, 0), {4, 3, 2}, f32, 3e-6f});
  out.push_back({"orthogonal_kernel", orthogonal(0.5), {2, 2, 6}, f32, 3e-6f});
  out.push_back({"orthogonal_complex", orthogonal(), {3, 2}, c64, 3e-6f});
  // Uniform numbers are exact; normal ones are logarithms, rounded in another order.
  for (InitializerCase& c : out) {
    const bool uniform = testing::has(c.name, "uniform") || c.name == "constant";
    const bool normal = !uniform && c.name != "axes_one" && c.tolerance == 0;
    if (normal) c.tolerance = 2e-7f;
  }
  for (const auto& [name, d] :
       {std::pair("complex_truncated_normal", Distribution::truncated_normal),
        std::pair("complex_normal", Distribution::normal),
        std::pair("complex_uniform", Distribution::uniform)}) {
    out.push_back({name, variance_scaling(1.5, FanMode::fan_in, d), {4, 3}, c64, 1e-6f});
  }
  return out;
}

TEST(Initializers, GiveTheNumbersOfJax) {
  const Array key = random::key(42);
  const auto& fixtures = testing::nn_fixtures("initializers.txt");
  EXPECT_EQ(fixtures.size(), cases().size());
  for (const InitializerCase& c : cases()) {
    SCOPED_TRACE(c.name);
    ASSERT_EQ(fixtures.count(c.name), 1u);
    expect_fixture(c.init(key, c.shape, c.dtype), fixtures.at(c.name), c.tolerance);
    const auto jitted = jit([&](Array k) { return c.init(k, c.shape, c.dtype); });
    expect_fixture(jitted(key), fixtures.at(c.name), c.tolerance);
  }
}

TEST(Initializers, GiveTheSameOnDevices) {
  const Array key = random::key(7);
  const Mesh mesh = make_mesh({{"x", 8}});
  for (const Initializer& init : {initializers::he_normal(), initializers::glorot_uniform()}) {
    const auto draw = jit(
        [&](Array k) {
          return init(k, {16, 24});
        },
        {.out_shardings = NamedSharding(mesh, P("x"))});
    EXPECT_EQ(floats(draw(key)), floats(init(key, {16, 24})));
    EXPECT_EQ(draw.lower(key).compile().collectives().size(), 0u);
  }
}

TEST(Initializers, HaveTheVarianceThatTheySay) {
  const Array key = random::key(3);
  for (const Distribution d :
       {Distribution::truncated_normal, Distribution::normal, Distribution::uniform}) {
    const Array w = initializers::variance_scaling(2, FanMode::fan_in, d)(key, {200, 300});
    EXPECT_NEAR(var(w).item<float>(), 0.01, 3e-4);
    EXPECT_NEAR(mean(w).item<float>(), 0, 2e-3);
  }
  // A key for each of several layers.
  const auto layers = vmap([](Array k) {
    return initializers::he_normal()(k, {4, 3});
  })(random::split(key, 3));
  EXPECT_EQ(layers.shape(), (std::vector<std::int64_t>{3, 4, 3}));
  EXPECT_EQ(floats(index(layers, {1})),
            floats(initializers::he_normal()(index(random::split(key, 3), {1}), {4, 3})));
}

TEST(Initializers, GiveOrthogonalMatrices) {
  const Array q = initializers::orthogonal()(random::key(5), {2, 3, 4}, f64);
  const Array flat = reshape(q, {6, 4});
  EXPECT_TRUE(allclose(matmul(transpose(flat), flat), eye(4), 1e-12, 1e-12).item<bool>());
  const Array keys = random::split(random::key(6), 2);
  const Array both = vmap([](Array k) { return initializers::orthogonal()(k, {2, 3}); })(keys);
  testing::expect_close(index(both, {1}), initializers::orthogonal()(index(keys, {1}), {2, 3}));
}

TEST(Initializers, TakeAnyFunction) {
  const Array key = random::key(0);
  std::vector<Initializer> all{initializers::zeros, initializers::ones, initializers::constant(2),
                               [](const Operand& k, const initializers::Shape& shape, DType t) {
                                 return random::uniform(k, shape, t) + 3;
                               }};
  float low = 0;
  for (const Initializer& init : all) {
    const Array x = init(key, {3}, f64);
    EXPECT_EQ(x.dtype(), f64);
    EXPECT_GE(astype(min(x), f32).item<float>(), low);
    low += 1;
  }
  EXPECT_EQ(initializers::he_normal()(key, {0, 4}).shape(), (std::vector<std::int64_t>{0, 4}));
}

TEST(Initializers, SayWhatIsWrong) {
  const Array key = random::key(0);
  const Initializer init = initializers::he_normal();
  expect_error<ValueError>([&] { init(key, {3}); }, {"variance_scaling", "[3]", "two", kNear});
  expect_error<ShapeError>([&] { init(key, {3, -1}); }, {"-1", kNear});
  expect_error<DTypeError>([&] { init(key, {3, 4}, s32); }, {"s32", kNear});
  expect_error<DTypeError>([&] { init(ones({2}), {3, 4}); }, {"key", "f32[2]", kNear});
  expect_error<ValueError>(
      [&] {
        initializers::he_normal({.in = {2}})(key, {3, 4});
      },
      {"axis 2", "-2 to 1"});
  expect_error<ValueError>(
      [&] {
        initializers::he_normal({.in = {-1}})(key, {3, 4});
      },
      {"axis 1 is named twice"});
  expect_error<ShapeError>([&] { initializers::constant(1)(key, {-3}); }, {"-3"});
  expect_error<ValueError>([&] { initializers::orthogonal()(key, {3}); },
                           {"orthogonal of shape [3]", kNear});
  expect_error<DTypeError>(
      [&] {
        initializers::orthogonal()(key, {3, 3}, bf16);
      },
      {"bf16", "valid are f32"});
}

}  // namespace initializer_tests
}  // namespace
}  // namespace tessera
