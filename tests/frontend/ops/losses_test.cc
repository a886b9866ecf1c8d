// SPDX-License-Identifier: Apache-2.0
// Losses against the values and gradients that optax gives.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace losses_tests {

using namespace losses;  // NOLINT: the names under test
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

/// An argument that the fixtures hold.
Array given(const std::string& name) {
  const auto& f = testing::nn_fixtures("losses.txt").at("of." + name);
  return array(f.as<float>(), f.shape);
}
Array mask() {
  return array(std::vector<bool>{true, false, true, true, true, true, true, true, true, true, false,
                                 false, true, false, true},
               {3, 5});
}

using Binary = std::function<Array(Array, Array)>;
NnCase pair_case(const std::string& name, const Array& a, const Array& b, Binary f,
                 bool grad = true) {
  return {name, {a, b}, [f](const Args& x) { return f(x[0], x[1]); }, grad};
}

std::vector<NnCase> regression_cases() {
  const Array a = nn_pattern({3, 5}, 1), b = nn_pattern({3, 5}, 2);
  return {
      pair_case("squared_error", a, b, [](Array x, Array y) { return squared_error(x, y); }),
      {"squared_error_alone", {a}, [](const Args& x) { return squared_error(x[0]); }},
      pair_case("l2_loss", a, b, [](Array x, Array y) { return l2_loss(x, y); }),
      pair_case("huber_loss", a, b, [](Array x, Array y) { return huber_loss(x, y); }),
      pair_case("huber_loss_delta", a, nn_pattern({5}, 2),
                [](Array x, Array y) { return huber_loss(x, y, 0.5); }),
      pair_case("log_cosh", a, b, [](Array x, Array y) { return log_cosh(x, y); }),
      {"log_cosh_alone",
       {array({-100.f, -1.f, 0.f, 0.5f, 80.f})},
       [](const Args& x) { return log_cosh(x[0]); }},
      pair_case("cosine_similarity", a, b,
                [](Array x, Array y) { return cosine_similarity(x, y); }),
      pair_case("cosine_distance", a, b,
                [](Array x, Array y) { return cosine_distance(x, y, 0.5, 0); }),
      {"cosine_similarity_where",
       {a, b, mask()},
       [](const Args& x) { return cosine_similarity(x[0], x[1], 0, -1, x[2]); }},
  };
}

std::vector<NnCase> classification_cases() {
  const Array x = nn_pattern({3, 5}, 1), p = given("p"), positive = given("positive");
  const Array labels = array({4, 0, 2}), logs = given("logs"), flags = given("flags");
  const Array likely = flags * 0.75f + 0.125f, m = mask();
  return {
      pair_case("softmax_cross_entropy", x, p,
                [](Array a, Array b) { return softmax_cross_entropy(a, b); }),
      pair_case("softmax_cross_entropy_both", x, p,
                [](Array a, Array b) {
                  return softmax_cross_entropy(a, b, {0, 1});
                }),
      {"softmax_cross_entropy_where",
       {x, p, m},
       [](const Args& a) { return softmax_cross_entropy(a[0], a[1], -1, a[2]); },
       false},
      pair_case("safe_softmax_cross_entropy", x, positive,
                [](Array a, Array b) { return safe_softmax_cross_entropy(a, b); }),
      pair_case("integer_labels", x, labels,
                [](Array a, Array b) { return softmax_cross_entropy_with_integer_labels(a, b); }),
      pair_case(
          "integer_labels_first", nn_pattern({3, 4, 2}, 1),
          array(std::vector<int>{0, 1, 3, -1, 2, 2}, {3, 2}),
          [](Array a, Array b) { return softmax_cross_entropy_with_integer_labels(a, b, 1); }),
      {"integer_labels_where",
       {x, labels, m},
       [](const Args& a) {
         return softmax_cross_entropy_with_integer_labels(a[0], a[1], -1, a[2]);
       }},
      pair_case("poly_loss", x, p,
                [](Array a, Array b) { return poly_loss_cross_entropy(a, b, 1.5); }),
      pair_case("sigmoid_binary_cross_entropy", x, flags,
                [](Array a, Array b) { return sigmoid_binary_cross_entropy(a, b); }),
      pair_case("sigmoid_binary_cross_entropy_far", array({-200.f, 200.f}), array({1.f, 0.f}),
                [](Array a, Array b) { return sigmoid_binary_cross_entropy(a, b); }),
      pair_case("sigmoid_focal_loss", x, likely,
                [](Array a, Array b) { return sigmoid_focal_loss(a, b); }),
      pair_case("sigmoid_focal_loss_alpha", x, likely,
                [](Array a, Array b) { return sigmoid_focal_loss(a, b, 0.25, 1.5); }),
      pair_case("hinge_loss", x, given("signs"), [](Array a, Array b) { return hinge_loss(a, b); }),
      pair_case("perceptron_loss", x, given("signs"),
                [](Array a, Array b) { return perceptron_loss(a, b); }),
      pair_case("sparsemax_loss", x, astype(flags, s32),
                [](Array a, Array b) { return sparsemax_loss(a, b); }),
      pair_case("multiclass_hinge_loss", x, labels,
                [](Array a, Array b) { return multiclass_hinge_loss(a, b); }),
      pair_case("multiclass_perceptron_loss", x, labels,
                [](Array a, Array b) { return multiclass_perceptron_loss(a, b); }),
      pair_case("kl_divergence", logs, positive,
                [](Array a, Array b) { return kl_divergence(a, b); }),
      pair_case(
          "kl_divergence_zero", logs, p, [](Array a, Array b) { return kl_divergence(a, b); },
          false),
      {"kl_divergence_where",
       {logs, positive, m},
       [](const Args& a) { return kl_divergence(a[0], a[1], 0, a[2]); }},
      pair_case("kl_divergence_with_log_targets", logs, nn_pattern({3, 5}, 2),
                [](Array a, Array b) { return kl_divergence_with_log_targets(a, b); }),
      pair_case("generalized_kl_divergence", logs, positive,
                [](Array a, Array b) { return generalized_kl_divergence(a, b); }),
      {"smooth_labels", {p}, [](const Args& a) { return smooth_labels(a[0], 0.25f); }},
  };
}

std::vector<NnCase> without(std::vector<NnCase> cases, const std::string& part) {
  std::erase_if(cases, [&](const NnCase& c) { return testing::has(c.name, part); });
  return cases;
}

TEST(Losses, AreThoseOfOptax) {
  check_nn_values("losses.txt", regression_cases());
  check_nn_values("losses.txt", classification_cases());
}

TEST(Losses, OfBatchesAreALoop) {
  check_nn_batches(regression_cases());
  // A batch's targets may be negative, of which there is no logarithm.
  check_nn_batches(without(without(classification_cases(), "kl_divergence"), "focal"));
}

TEST(Losses, HaveSecondDerivatives) {
  const auto wide = [](const Array& x) { return astype(x, f64) * 1.03 + 0.01; };
  const Array a = wide(nn_pattern({3, 5}, 1)), b = wide(given("positive")),
              labels = array({4, 0, 2});
  check_grads(
      [](Array x, Array p) {
        return softmax_cross_entropy(x, p) + poly_loss_cross_entropy(x, p) + kl_divergence(x, p) +
               safe_softmax_cross_entropy(x, p) + cosine_similarity(x, p);
      },
      std::tuple(a, b), {.order = 2, .eps = 1e-4});
  check_grads(
      [](Array x, Array p) {
        return sigmoid_focal_loss(x, p, 0.25) + log_cosh(x, p) + sigmoid_binary_cross_entropy(x, p);
      },
      std::tuple(a, b), {.order = 2});
  check_grads([&](Array x) { return softmax_cross_entropy_with_integer_labels(x, labels); },
              std::tuple(a), {.order = 2});
}

TEST(Losses, AtTheEdgeAreFiniteWhereTheyShouldBe) {
  // Where a label is 0 its logit may be anything.
  const Array p = given("p");
  Array far = nn_pattern({3, 5}, 1);
  far = dynamic_update_slice(far, full({1, 1}, -std::numeric_limits<float>::infinity()), {0, 1});
  testing::expect_fixture(
      safe_softmax_cross_entropy(far, p),
      testing::nn_fixtures("losses.txt").at("safe_softmax_cross_entropy_infinite"), 1e-5f);
  const Array g = grad([&](Array x) { return sum(safe_softmax_cross_entropy(x, p)); })(far);
  EXPECT_EQ(floats(g)[1], 0);
  for (float v : floats(g)) EXPECT_TRUE(std::isfinite(v));
  // A target of 0 adds nothing, and has a finite derivative by the prediction.
  const Array k = grad([&](Array x) { return sum(kl_divergence(x, p)); })(given("logs"));
  expect_close(k, -p);
  // A focal loss far out is 0 or the cross entropy, without NaN.
  const Array x = array({-200.f, 200.f, -200.f, 200.f}), y = array({0.f, 1.f, 1.f, 0.f});
  expect_close(floats(sigmoid_focal_loss(x, y)), {0, 0, 200, 200});
  for (float v : floats(grad([&](Array z) { return sum(sigmoid_focal_loss(z, y)); })(x))) {
    EXPECT_TRUE(std::isfinite(v));
  }
  // Without classes that take part there is no loss.
  const Array nothing = zeros({3, 5}, pred), labels = array({4, 0, 2});
  const auto loss = [&](Array z) {
    return sum(softmax_cross_entropy_with_integer_labels(z, labels, -1, nothing));
  };
  EXPECT_EQ(loss(nn_pattern({3, 5}, 1)).item<float>(), 0);
  EXPECT_EQ(floats(grad(loss)(nn_pattern({3, 5}, 1))), std::vector<float>(15, 0.0f));
  // Labels out of range have none.
  EXPECT_TRUE(std::isnan(
      floats(softmax_cross_entropy_with_integer_labels(nn_pattern({1, 5}, 1), array({5})))[0]));
}

TEST(Losses, OfASplitBatchCommunicateNothing) {
  const Array x = nn_pattern({8, 5}, 1), p = abs(nn_pattern({8, 5}, 2)), labels = arange(8) % 5;
  check_nn_sharded("softmax_cross_entropy",
                   [](const Args& a) { return softmax_cross_entropy(a[0], a[1]); }, {x, p}, {0, 0});
  check_nn_sharded(
      "integer labels",
      [](const Args& a) { return softmax_cross_entropy_with_integer_labels(a[0], a[1]); },
      {x, labels}, {0, 0});
  check_nn_sharded("huber_loss", [](const Args& a) { return huber_loss(a[0], a[1]); }, {x, p},
                   {0, 0});
  check_nn_sharded("cosine_distance", [](const Args& a) { return cosine_distance(a[0], a[1]); },
                   {x, p}, {0, 0});
}

TEST(Losses, SayWhatIsWrong) {
  const Array x = ones({3, 5});
  expect_error<ShapeError>([&] { squared_error(x, ones({5})); },
                           {"squared_error", "f32[3,5]", "f32[5]", "one shape", kNear});
  expect_error<ShapeError>([&] { huber_loss(x, ones({4})); }, {"huber_loss", "[4]", kNear});
  expect_error<DTypeError>([&] { log_cosh(astype(x, c64)); }, {"log_cosh of complex", kNear});
  expect_error<ValueError>([&] { softmax_cross_entropy(x, x, 2); }, {"axis 2", kNear});
  expect_error<DTypeError>([&] { softmax_cross_entropy_with_integer_labels(x, ones({3})); },
                           {"labels must be integers", "f32[3]", kNear});
  expect_error<ShapeError>([&] { softmax_cross_entropy_with_integer_labels(x, ones({5}, s32)); },
                           {"f32[3,5]", "s32[5]", "[3]", kNear});
  expect_error<ShapeError>([&] { multiclass_hinge_loss(x, ones({2}, s32)); },
                           {"multiclass_hinge_loss", "s32[2]", kNear});
  expect_error<ShapeError>(
      [&] {
        kl_divergence(x, x, -1, ones({2, 3, 5}, pred));
      },
      {"`where` is pred[2,3,5]", kNear});
  expect_error<ShapeError>([&] { smooth_labels(ones({5}), ones({3, 5})); }, {"smooth_labels"});
}

}  // namespace losses_tests
}  // namespace
}  // namespace tessera
