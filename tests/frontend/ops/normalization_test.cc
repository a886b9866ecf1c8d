// SPDX-License-Identifier: Apache-2.0
// Normalisation layers against the values and gradients that flax gives.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace normalization_tests {

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

std::vector<NnCase> norm_cases() {
  const Args vectors = nn_patterns({{2, 3, 4}, {4}, {4}});
  const Args images = nn_patterns({{2, 3, 2, 4}, {4}, {4}});
  Args masked = vectors;
  masked.push_back(array(
      std::vector<bool>{true, true, false, true, false, true, true, true, true, true, true, true},
      {3, 4}));
  return {
      {"layer_norm", vectors, [](const Args& a) { return layer_norm(a[0], a[1], a[2]); }},
      {"layer_norm_plain",
       {vectors[0]},
       [](const Args& a) { return layer_norm(a[0], {}, {}, {.epsilon = 0.25}); }},
      {"layer_norm_axes", nn_patterns({{2, 3, 4}, {3, 4}, {3, 4}}),
       [](const Args& a) {
         return layer_norm(a[0], a[1], a[2],
                           {.axes = {1, 2}, .algorithm = VarianceAlgorithm::stable});
       }},
      {"layer_norm_where", masked,
       [](const Args& a) { return layer_norm(a[0], a[1], a[2], {.where = a[3]}); }, true, 1e-4f},
      {"rms_norm", {vectors[0], vectors[1]}, [](const Args& a) { return rms_norm(a[0], a[1]); }},
      {"group_norm", images, [](const Args& a) { return group_norm(a[0], 2, a[1], a[2]); }},
      {"group_norm_flat", nn_patterns({{3, 4}, {4}, {4}}),
       [](const Args& a) { return group_norm(a[0], 1, a[1], a[2], {.epsilon = 0.5}); }},
      {"instance_norm", images, [](const Args& a) { return instance_norm(a[0], a[1], a[2]); }},
  };
}

std::vector<NnCase> batch_norm_cases() {
  Args images = nn_patterns({{3, 2, 2, 4}, {4}, {4}, {4}});
  images[3] = nn_pattern({4}, 3);
  images.push_back(array({1.f, 0.5f, 2.f, 0.25f}));
  Args first = images;
  first[0] = nn_pattern({3, 4, 2, 2}, 1);
  const auto run = [](const Args& a, const BatchNormOptions& options) {
    return batch_norm(a[0], a[3], a[4], a[1], a[2], options);
  };
  return {
      {"batch_norm", images, [=](const Args& a) { return run(a, {}).y; }},
      {"batch_norm_mean", images, [=](const Args& a) { return run(a, {.momentum = 0.75}).mean; }},
      {"batch_norm_variance", images,
       [=](const Args& a) { return run(a, {.momentum = 0.75}).variance; }},
      {"batch_norm_running", images,
       [=](const Args& a) { return run(a, {.training = false, .epsilon = 0.125}).y; }},
      {"batch_norm_first", first, [=](const Args& a) { return run(a, {.axis = 1}).y; }},
  };
}

TEST(Normalization, IsThatOfFlax) {
  check_nn_values("layers.txt", norm_cases());
  check_nn_values("layers.txt", batch_norm_cases());
}

TEST(Normalization, OfBatchesIsALoop) {
  check_nn_batches(norm_cases());
  std::vector<NnCase> training = batch_norm_cases();
  training.erase(training.begin() + 3);  // a variance may not be negative
  check_nn_batches(training);
}

TEST(Normalization, HasSecondDerivatives) {
  const Array x = astype(nn_pattern({2, 3, 4}, 1), f64), c = astype(nn_pattern({4}, 2), f64);
  check_grads([](Array v, Array s) { return layer_norm(v, s, s) + rms_norm(v, s); },
              std::tuple(x, c), {.order = 2});
  check_grads([](Array v, Array s) { return group_norm(v, 2, s) + instance_norm(v, s); },
              std::tuple(x, c), {.order = 2});
  check_grads(
      [](Array v, Array s) {
        return batch_norm(v, zeros({4}, f64), ones({4}, f64), s, s,
                          {.algorithm = VarianceAlgorithm::stable});
      },
      std::tuple(x, c), {.order = 2});
}

TEST(Normalization, KeepsTypes) {
  const Array x = nn_pattern({2, 3, 4}, 1), half = astype(x, bf16), c = ones({4}, bf16);
  EXPECT_EQ(layer_norm(half, c, c).dtype(), bf16);
  EXPECT_EQ(layer_norm(half, ones({4})).dtype(), f32);
  EXPECT_EQ(rms_norm(astype(x, f64)).dtype(), f64);
  const auto [y, mean, variance] = batch_norm(half, zeros({4}), ones({4}), c);
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_EQ(mean.dtype(), f32);
  EXPECT_EQ(variance.dtype(), f32);
}

TEST(Normalization, OfASplitBatchCommunicatesNothing) {
  const Array x = nn_pattern({8, 3, 2, 4}, 1), c = nn_pattern({4}, 2);
  check_nn_sharded("layer_norm", [](const Args& a) { return layer_norm(a[0], a[1], a[1]); }, {x, c},
                   {0, -1});
  check_nn_sharded("rms_norm", [](const Args& a) { return rms_norm(a[0], a[1]); }, {x, c}, {0, -1});
  check_nn_sharded("group_norm", [](const Args& a) { return group_norm(a[0], 2, a[1]); }, {x, c},
                   {0, -1});
  check_nn_sharded("instance_norm", [](const Args& a) { return instance_norm(a[0], a[1]); }, {x, c},
                   {0, -1});
  check_nn_sharded("batch_norm",
                   [](const Args& a) {
                     return batch_norm(a[0], a[1], ones({4}), a[1], a[1], {.training = false}).y;
                   },
                   {x, c}, {0, -1});
}

TEST(Normalization, OfABatchOnDevicesTakesItsStatisticsOverAllOfThem) {
  const Array x = nn_pattern({16, 3}, 1), zero = zeros({3}), one = ones({3});
  const BatchNormResult want = batch_norm(x, zero, one);
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array placed = testing::put(x, mesh, P("x"));
  const BatchNormResult have =
      jit([&](Array v) { return batch_norm(v, zero, one, one, {}); })(placed);
  expect_close(have.y, want.y);
  expect_close(have.variance, want.variance);
  // Per device and per entry of a batch the axes are named.
  const auto local = [&](std::vector<std::string> names) {
    return [=](Array v) { return batch_norm(v, zero, one, {}, {}, {.axis_names = names}).y; };
  };
  const auto mapped =
      shard_map(local({"x"}), {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  expect_close(mapped(placed), want.y, 1e-4f);
  const Array rows = reshape(x, {16, 1, 3});
  expect_close(vmap(local({"i"}), {.axis_name = "i"})(rows), reshape(want.y, {16, 1, 3}), 1e-4f);
}

TEST(Normalization, SaysWhatIsWrong) {
  const Array x = ones({2, 3, 4});
  expect_error<ShapeError>([&] { layer_norm(x, ones({3})); }, {"[2,3,4]", "[3]", kNear});
  expect_error<ShapeError>(
      [&] {
        rms_norm(x, ones({2, 2, 3, 4}));
      },
      {"rms_norm", "scale", "f32[2,2,3,4]", kNear});
  expect_error<ValueError>([&] { layer_norm(x, {}, {}, {.axes = 3}); }, {"axis 3", kNear});
  expect_error<ValueError>([&] { group_norm(x, 3); }, {"3 groups", "multiple", kNear});
  expect_error<ShapeError>([&] { group_norm(x, 2, ones({2})); },
                           {"group_norm", "scale is f32[2]", "[4]", kNear});
  expect_error<ValueError>([&] { instance_norm(ones({4})); }, {"[batch, .., features]", kNear});
  expect_error<ShapeError>([&] { batch_norm(x, ones({3}), ones({4})); },
                           {"the running mean is f32[3]", "[4]", kNear});
  expect_error<DTypeError>([&] { batch_norm(x, ones({4}, s32), ones({4})); },
                           {"running statistics", "s32[4]"});
  expect_error<DTypeError>([&] { rms_norm(astype(x, c64)); }, {"rms_norm of complex"});
}

}  // namespace normalization_tests
}  // namespace
}  // namespace tessera
