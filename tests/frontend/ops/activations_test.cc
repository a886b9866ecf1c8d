// SPDX-License-Identifier: Apache-2.0
// Activations, softmax and standardisation against the values and gradients that JAX gives.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace activation_tests {

using testing::check_nn_batches;
using testing::check_nn_sharded;
using testing::check_nn_values;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;
using testing::nn_pattern;
using testing::nn_patterns;
using testing::NnCase;

using Args = std::vector<Array>;

/// All kinks, and numbers far from them.
Array kinks() {
  return array({-100.f, -7.5f,  -6.f, -4.f, -3.f, -1.5f, -1.f, -0.375f, -1e-3f, 0.f,
                1e-3f,  0.625f, 1.f,  2.f,  2.5f, 3.f,   5.5f, 6.f,     6.5f,   100.f});
}

std::vector<NnCase> plain_cases() {
  std::vector<NnCase> out;
  const auto add = [&](const std::string& name, std::function<Array(Array)> f) {
    out.push_back({name, {kinks()}, [f](const Args& a) { return f(a[0]); }});
  };
  add("relu", [](Array x) { return relu(x); });
  add("relu6", [](Array x) { return relu6(x); });
  add("gelu", [](Array x) { return gelu(x); });
  add("silu", [](Array x) { return swish(x); });
  add("mish", [](Array x) { return mish(x); });
  add("elu", [](Array x) { return elu(x); });
  add("celu", [](Array x) { return celu(x); });
  add("selu", [](Array x) { return selu(x); });
  add("leaky_relu", [](Array x) { return leaky_relu(x); });
  add("softplus", [](Array x) { return softplus(x); });
  add("sparse_plus", [](Array x) { return sparse_plus(x); });
  add("squareplus", [](Array x) { return squareplus(x); });
  add("soft_sign", [](Array x) { return soft_sign(x); });
  add("hard_tanh", [](Array x) { return hard_tanh(x); });
  add("hard_sigmoid", [](Array x) { return hard_sigmoid(x); });
  add("hard_silu", [](Array x) { return hard_swish(x); });
  add("sparse_sigmoid", [](Array x) { return sparse_sigmoid(x); });
  add("log_sigmoid", [](Array x) { return log_sigmoid(x); });
  add("sigmoid", [](Array x) { return sigmoid(x); });
  add("identity", [](Array x) { return identity(x); });
  return out;
}

std::vector<NnCase> cases_with_options() {
  return {
      {"gelu_exact",
       {array({-3.f, -1.f, 0.f, 0.5f, 2.f, 6.f})},
       [](const Args& a) { return gelu(a[0], false); }},
      {"gelu_exact_far",
       {array({-7.f, -6.f, -5.f})},
       [](const Args& a) { return gelu(a[0], false) * float(1 << 30); }},
      {"elu_alpha", {kinks(), full({}, 0.5f, f32)}, [](const Args& a) { return elu(a[0], a[1]); }},
      {"celu_alpha",
       {kinks(), full({}, 0.5f, f32)},
       [](const Args& a) { return celu(a[0], a[1]); }},
      {"squareplus_b",
       {kinks(), full({}, 0.25f, f32)},
       [](const Args& a) { return squareplus(a[0], a[1]); }},
      {"log1mexp",
       {array({0.f, 1e-6f, 0.25f, 0.6875f, 0.75f, 3.f, 50.f})},
       [](const Args& a) { return log1mexp(a[0]); }},
      {"glu", nn_patterns({{4, 3}}), [](const Args& a) { return glu(a[0], 0); }},
  };
}

Array mask() {
  return array(
      std::vector<bool>{true, false, true, true, false, false, false, true, true, true, true, true},
      {3, 4});
}

std::vector<NnCase> normalised_cases() {
  const Args x = nn_patterns({{3, 4}}), cube = nn_patterns({{2, 3, 2}});
  const Array m = mask();
  return {
      {"softmax", x, [](const Args& a) { return softmax(a[0]); }},
      {"softmax_both", cube,
       [](const Args& a) {
         return softmax(a[0], {0, 2});
       }},
      {"log_softmax", x, [](const Args& a) { return log_softmax(a[0]); }},
      {"log_softmax_both", cube,
       [](const Args& a) {
         return log_softmax(a[0], {0, 2});
       }},
      {"softmax_where", {x[0], m}, [](const Args& a) { return softmax(a[0], -1, a[1]); }},
      {"log_softmax_where",
       {x[0], m},
       [](const Args& a) { return log_softmax(a[0], -1, a[1]); },
       false},
      {"softmax_where_first",
       {x[0], index(m, {Slice{}, Slice{1, 2}})},
       [](const Args& a) { return softmax(a[0], 0, a[1]); }},
      {"logmeanexp", x, [](const Args& a) { return logmeanexp(a[0]); }},
      {"logmeanexp_axis", x, [](const Args& a) { return logmeanexp(a[0], 0, true); }},
      {"logmeanexp_where",
       {x[0], m},
       [](const Args& a) { return logmeanexp(a[0], -1, false, a[1]); }},
      {"standardize", x, [](const Args& a) { return standardize(a[0]); }},
      {"standardize_stable", x,
       [](const Args& a) {
         return standardize(a[0], {0, 1},
                            {.epsilon = 0.25, .algorithm = VarianceAlgorithm::stable});
       }},
      {"standardize_where",
       {x[0], array(std::vector<bool>{true, false, true, true, true, true, false, true, true, true,
                                      true, true},
                    {3, 4})},
       [](const Args& a) { return standardize(a[0], -1, {.where = a[1]}); }},
      {"standardize_given",
       {x[0], nn_pattern({1, 4}, 2), expand_dims(array({1.f, 2.f, 0.5f, 4.f}), 0)},
       [](const Args& a) { return standardize(a[0], 0, {.mean = a[1], .variance = a[2]}); }},
  };
}

TEST(Activations, AreThoseOfJax) {
  check_nn_values("activations.txt", plain_cases());
  check_nn_values("activations.txt", cases_with_options());
}

TEST(Activations, AlongAxesAreThoseOfJax) {
  check_nn_values("activations.txt", normalised_cases());
}

TEST(Activations, OfBatchesAreALoop) {
  std::vector<NnCase> elementwise = cases_with_options();
  elementwise.erase(elementwise.begin() + 5);  // log1mexp of negative numbers is NaN
  check_nn_batches(elementwise);
  check_nn_batches(plain_cases());
  std::vector<NnCase> others = normalised_cases();
  others.pop_back();  // its variance may not be negative
  check_nn_batches(others);
}

TEST(Activations, HaveSecondDerivatives) {
  const Array x = astype(nn_pattern({3, 4}, 1), f64) * 1.1 + 0.03;
  check_grads([](Array v) { return mish(v) + selu(v) + squareplus(v) + soft_sign(v); },
              std::tuple(x), {.order = 2});
  check_grads([](Array v) { return softmax(v) + log_softmax(v, 0) + standardize(v); },
              std::tuple(x), {.order = 2});
  check_grads([](Array v) { return softmax(v, -1, mask()) + logmeanexp(v, -1, true, mask()); },
              std::tuple(x), {.order = 2});
}

TEST(Activations, WithoutElementsToChooseFromAreZeroAndHaveZeroGradients) {
  const Array nothing = zeros({3, 4}, pred), x = nn_pattern({3, 4}, 1) * 100.0f;
  EXPECT_EQ(floats(softmax(x, -1, nothing)), std::vector<float>(12, 0.0f));
  const auto loss = [&](Array v) { return sum(softmax(v, -1, nothing) * v); };
  EXPECT_EQ(floats(grad(loss)(x)), std::vector<float>(12, 0.0f));
  const Array first = array(std::vector<bool>{true, false, false, false}, {1, 4});
  const Array far = expand_dims(array({-1000.f, 1.f, 2.f, 3.f}), 0);
  EXPECT_EQ(floats(softmax(far, -1, first)), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(floats(grad([&](Array v) { return sum(softmax(v, -1, first) * v); })(far)),
            (std::vector<float>{1, 0, 0, 0}));
}

TEST(Activations, KeepOrChangeTypes) {
  const Array ints = array({-3, 0, 2, 9});
  EXPECT_EQ(hard_tanh(ints).to_vector<int>(), (std::vector<int>{-1, 0, 1, 1}));
  EXPECT_EQ(relu6(ints).to_vector<int>(), (std::vector<int>{0, 0, 2, 6}));
  EXPECT_EQ(hard_tanh(astype(ints, u8)).dtype(), u8);
  EXPECT_EQ(identity(ints).dtype(), s32);
  EXPECT_EQ(hard_sigmoid(ints).dtype(), f32);
  EXPECT_EQ(standardize(astype(ints, bf16)).dtype(), bf16);
  EXPECT_EQ(softmax(ints).dtype(), f32);
  EXPECT_TRUE(mish(2.0f).weak_type());
  EXPECT_TRUE(std::isnan(relu6(std::numeric_limits<float>::quiet_NaN()).item<float>()));
  EXPECT_TRUE(std::isnan(hard_tanh(std::numeric_limits<float>::quiet_NaN()).item<float>()));
}

TEST(Activations, OfASplitBatchCommunicateNothing) {
  const Array x = nn_pattern({16, 6}, 1);
  check_nn_sharded("mish", [](const Args& a) { return mish(a[0]); }, {x}, {0});
  check_nn_sharded("softmax", [](const Args& a) { return softmax(a[0]); }, {x}, {0});
  check_nn_sharded("log_softmax", [](const Args& a) { return log_softmax(a[0]); }, {x}, {0});
  check_nn_sharded("logmeanexp", [](const Args& a) { return logmeanexp(a[0], 1); }, {x}, {0});
  check_nn_sharded("standardize", [](const Args& a) { return standardize(a[0]); }, {x}, {0});
}

TEST(Activations, SayWhatIsWrong) {
  const Array x = ones({2, 3}), z = ones({2}, c64);
  expect_error<DTypeError>([&] { mish(z); }, {"mish of complex", "c64[2]", kNear});
  expect_error<DTypeError>([&] { hard_tanh(z); }, {"hard_tanh of complex", kNear});
  expect_error<DTypeError>([&] { softmax(z); }, {"softmax of complex", kNear});
  expect_error<ValueError>([&] { standardize(x, 2); }, {"standardize", "axis 2", kNear});
  expect_error<ShapeError>(
      [&] {
        softmax(x, -1, ones({4, 2, 3}, pred));
      },
      {"softmax of f32[2,3]", "pred[4,2,3]", kNear});
  expect_error<ShapeError>(
      [&] {
        standardize(x, -1, {.mean = ones({2, 2, 3})});
      },
      {"standardize", "f32[2,2,3]", kNear});
}

}  // namespace activation_tests
}  // namespace
}  // namespace tessera
