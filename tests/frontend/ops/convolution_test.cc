// SPDX-License-Identifier: Apache-2.0
// Convolutions against the values and gradients that JAX and flax give.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace convolution_tests {

using testing::check_nn_batches;
using testing::check_nn_sharded;
using testing::check_nn_values;
using testing::expect_close;
using testing::expect_error;
using testing::kNear;
using testing::nn_pattern;
using testing::nn_patterns;
using testing::NnCase;

const ConvLayout kLast{"NHWC", "HWIO", "NHWC"};
using Args = std::vector<Array>;

NnCase conv_case(const std::string& name, const std::vector<std::vector<std::int64_t>>& shapes,
                 std::vector<std::int64_t> strides, Padding padding, ConvOptions options) {
  return {name, nn_patterns(shapes), [=](const Args& a) {
            return conv_general_dilated(a[0], a[1], strides, padding, options);
          }};
}
NnCase up_case(const std::string& name, const std::vector<std::vector<std::int64_t>>& shapes,
               std::vector<std::int64_t> strides, Padding padding,
               ConvTransposeOptions options = {}) {
  return {name, nn_patterns(shapes),
          [=](const Args& a) { return conv_transpose(a[0], a[1], strides, padding, options); }};
}

std::vector<NnCase> general_cases() {
  return {
      conv_case("first", {{2, 3, 5, 4}, {4, 3, 2, 3}}, {1, 1}, "VALID", {}),
      conv_case("same", {{2, 5, 4, 3}, {3, 2, 3, 4}}, {2, 2}, "SAME", {.layout = kLast}),
      conv_case("same_lower", {{2, 5, 6, 2}, {2, 2, 2, 3}}, {2, 3}, "same_lower",
                {.layout = kLast}),
      conv_case("pairs", {{1, 4, 6, 2}, {3, 2, 2, 2}}, {1, 2}, {{1, 2}, {-1, 0}},
                {.layout = kLast}),
      conv_case("dilated", {{2, 3, 5, 2}, {2, 3, 2, 2}}, {1, 2}, {{2, 1}, {0, 3}},
                {.lhs_dilation = {2, 1}, .rhs_dilation = {1, 2}, .layout = kLast}),
      conv_case("grouped", {{2, 4, 3, 4}, {2, 2, 2, 6}}, {1, 1}, "SAME",
                {.layout = kLast, .feature_group_count = 2}),
      conv_case("depthwise", {{2, 4, 3, 3}, {2, 2, 1, 6}}, {2, 1}, "VALID",
                {.layout = kLast, .feature_group_count = 3}),
      conv_case("batch_grouped", {{4, 4, 3, 2}, {2, 2, 2, 4}}, {1, 1}, "VALID",
                {.layout = kLast, .batch_group_count = 2}),
      conv_case("mixed", {{2, 5, 2, 4}, {2, 2, 3, 3}}, {1, 2}, "SAME",
                {.layout = {"CWNH", "IHOW", "HCNW"}}),
      conv_case("line", {{2, 7, 2}, {3, 2, 3}}, {2}, "SAME", {.layout = {"NHC", "HIO", "NHC"}}),
      conv_case("volume", {{1, 3, 4, 3, 2}, {2, 3, 2, 2, 2}}, {1, 2, 1}, "SAME",
                {.layout = {"NHWDC", "HWDIO", "NHWDC"}}),
      conv_case("point", {{3, 4}, {4, 2}}, {}, "VALID", {.layout = {"NC", "IO", "NC"}}),
      {"plain", nn_patterns({{2, 2, 4, 5}, {3, 2, 3, 3}}),
       [](const Args& a) {
         return conv(a[0], a[1], {1, 2}, "SAME");
       }},
      {"general", nn_patterns({{2, 2, 3, 5}, {3, 2, 2, 3}}),
       [](const Args& a) {
         return conv_with_general_padding(a[0], a[1], {1, 2}, {{1, 0}, {2, 2}}, {2, 1}, {1, 2});
       }},
  };
}

std::vector<NnCase> transposed_cases() {
  return {
      up_case("up_same", {{2, 3, 4, 3}, {3, 3, 3, 4}}, {2, 2}, "SAME"),
      up_case("up_valid", {{2, 3, 4, 3}, {3, 2, 3, 4}}, {2, 3}, "VALID"),
      up_case("up_wide", {{2, 3, 4, 3}, {2, 2, 3, 4}}, {3, 3}, "SAME"),
      up_case("up_pairs", {{2, 3, 4, 3}, {3, 3, 3, 4}}, {2, 1}, {{1, 2}, {0, 1}}),
      up_case("up_consistent", {{2, 3, 4, 3}, {3, 3, 3, 4}}, {2, 1}, {{1, 0}, {0, 1}},
              {.use_consistent_padding = true}),
      up_case("up_dilated", {{2, 3, 4, 3}, {2, 3, 3, 4}}, {2, 1}, "SAME", {.rhs_dilation = {2, 2}}),
      up_case("up_kernel", {{2, 3, 4, 3}, {3, 2, 4, 3}}, {2, 2}, "SAME",
              {.transpose_kernel = true}),
      up_case("up_first", {{2, 3, 3, 4}, {3, 4, 3, 2}}, {2, 2}, "VALID",
              {.layout = {"NCHW", "OIHW", "NCHW"}, .transpose_kernel = true}),
  };
}

std::vector<NnCase> layer_cases() {
  return {
      {"conv1d", nn_patterns({{2, 6, 2}, {3, 2, 3}}),
       [](const Args& a) { return conv1d(a[0], a[1], {.strides = {2}}); }},
      {"conv1d_alone", nn_patterns({{6, 2}, {3, 2, 3}}),
       [](const Args& a) {
         return conv1d(a[0], a[1], {.padding = "VALID", .kernel_dilation = {2}});
       }},
      {"conv2d", nn_patterns({{2, 4, 3, 4}, {3, 2, 2, 2}}),
       [](const Args& a) {
         return conv2d(a[0], a[1], {.strides = {2, 1}, .groups = 2});
       }},
      {"conv2d_batches", nn_patterns({{2, 3, 3, 3, 2}, {2, 2, 2, 2}}),
       [](const Args& a) {
         return conv2d(a[0], a[1], {.padding = {{1, 0}, {0, 1}}});
       }},
      {"conv3d", nn_patterns({{1, 3, 3, 4, 2}, {2, 2, 2, 2, 2}}),
       [](const Args& a) {
         return conv3d(a[0], a[1],
                       {.strides = {1, 2, 2},
                        .padding = {{0, 0}, {1, 0}, {0, 0}},
                        .input_dilation = {1, 2, 1}});
       }},
  };
}

TEST(Convolution, IsThatOfJax) {
  check_nn_values("convolution.txt", general_cases());
  check_nn_values("convolution.txt", transposed_cases());
  check_nn_values("convolution.txt", layer_cases());
}

TEST(Convolution, OfBatchesIsALoop) {
  check_nn_batches(general_cases());
  std::vector<NnCase> others = transposed_cases();
  others.erase(others.begin() + 2, others.end());
  check_nn_batches(others);
  check_nn_batches(layer_cases());
}

TEST(Convolution, TakesIntegersAndNarrowFloats) {
  const auto exact = [](const Array& x) { return astype(x * 8.0f, s32); };
  check_nn_values("convolution.txt",
                  {{"integers",
                    {exact(nn_pattern({1, 3, 3, 2}, 1)), exact(nn_pattern({2, 2, 2, 2}, 2))},
                    [](const Args& a) {
                      return conv_general_dilated(a[0], a[1], {1, 1}, "VALID", {.layout = kLast});
                    },
                    false},
                   {"preferred", nn_patterns({{1, 3, 3, 2}, {2, 2, 2, 2}}),
                    [](const Args& a) {
                      return conv_general_dilated(astype(a[0], bf16), astype(a[1], bf16), {1, 1},
                                                  "SAME", {.layout = kLast, .preferred = f32});
                    },
                    false}});
  // Operands of two dtypes are promoted.
  const Array mixed = conv2d(astype(nn_pattern({1, 3, 3, 2}, 1), f64), nn_pattern({2, 2, 2, 2}, 2));
  EXPECT_EQ(mixed.dtype(), f64);
  expect_close(astype(mixed, f32),
               conv2d(nn_pattern({1, 3, 3, 2}, 1), nn_pattern({2, 2, 2, 2}, 2)));
}

TEST(Convolution, OfNothingIsNothingOrZero) {
  using Dims = std::vector<std::int64_t>;
  EXPECT_EQ(conv2d(zeros({0, 5, 5, 3}), ones({3, 3, 3, 4})).shape(), (Dims{0, 5, 5, 4}));
  EXPECT_EQ(testing::floats(conv1d(zeros({1, 2, 0}), ones({3, 0, 2}))),
            (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(conv1d(ones({1, 2, 3}), ones({3, 3, 4}), {.padding = "VALID"}).shape(),
            (Dims{1, 0, 4}));
  EXPECT_EQ(conv1d(ones({1, 0, 3}), ones({3, 3, 4})).shape(), (Dims{1, 0, 4}));
}

TEST(Convolution, HasTheDerivativesOfDifferences) {
  const auto f64s = [](const std::vector<std::int64_t>& shape, int seed) {
    return astype(nn_pattern(shape, seed), f64);
  };
  check_grads(
      [](Array x, Array k) {
        return conv_general_dilated(x, k, {2, 1}, {{1, 0}, {0, 2}},
                                    {.lhs_dilation = {1, 2},
                                     .rhs_dilation = {2, 1},
                                     .layout = kLast,
                                     .feature_group_count = 2});
      },
      std::tuple(f64s({2, 4, 3, 4}, 1), f64s({2, 2, 2, 4}, 2)), {.order = 2});
  check_grads(
      [](Array x, Array k) {
        return conv_transpose(x, k, {2, 2}, "SAME");
      },
      std::tuple(f64s({1, 2, 3, 2}, 1), f64s({3, 2, 2, 3}, 2)), {.order = 2});
}

TEST(Convolution, OfASplitBatchCommunicatesNothing) {
  check_nn_sharded("conv2d", [](const Args& a) { return conv2d(a[0], a[1]); },
                   nn_patterns({{16, 4, 3, 2}, {3, 3, 2, 4}}), {0, -1});
  check_nn_sharded("conv1d of batches",
                   [](const Args& a) { return conv1d(a[0], a[1], {.strides = {2}}); },
                   nn_patterns({{8, 2, 5, 2}, {3, 2, 4}}), {0, -1});
  check_nn_sharded("conv_transpose",
                   [](const Args& a) {
                     return conv_transpose(a[0], a[1], {2, 2}, "VALID");
                   },
                   nn_patterns({{8, 4, 3, 2}, {3, 3, 2, 4}}), {0, -1});
}

TEST(Convolution, SaysWhatIsWrong) {
  const Array x = ones({2, 5, 5, 4}), k = ones({3, 3, 4, 8});
  const auto wrong = [&](std::vector<std::int64_t> strides, const Padding& padding,
                         const ConvOptions& options) {
    return conv_general_dilated(x, k, strides, padding, options);
  };
  expect_error<ShapeError>(
      [&] {
        conv2d(x, ones({3, 3, 3, 8}));
      },
      {"conv2d", "f32[2,5,5,4]", "4 features (dim 3)", "takes 3", kNear});
  expect_error<ShapeError>(
      [&] {
        conv2d(x, ones({3, 3, 8}));
      },
      {"conv2d", "f32[3,3,8]", "2 spatial dimensions", kNear});
  expect_error<ShapeError>(
      [&] {
        conv(x, ones({3, 3, 8}), {1, 1}, "SAME");
      },
      {"conv of", "one rank", kNear});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "WIDE", {.layout = kLast});
      },
      {"\"WIDE\"", "SAME_LOWER"});
  expect_error<ValueError>([&] { wrong({1}, "SAME", {.layout = kLast}); },
                           {"strides [1]", "2 dimensions"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 0}, "SAME", {.layout = kLast});
      },
      {"strides [1,0]", "1 or more"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, {{1, 1}}, {.layout = kLast});
      },
      {"padding of 1 dimensions", "2"});
  expect_error<ShapeError>(
      [&] {
        wrong({1, 1}, {{-4, -4}, {0, 0}}, {.layout = kLast});
      },
      {"padding (-4, -4)", "size 5"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.lhs_dilation = {2, 1}, .layout = kLast});
      },
      {"lhs_dilation [2,1]", "conv_transpose"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = {"NHWC", "HWIO", "NHC"}});
      },
      {"\"NHC\" has 3 letters", "rank 4"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = {"NHWC", "HWIO", "NHDC"}});
      },
      {"same letters"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = {"NHHC", "HWIO", "NHWC"}});
      },
      {"\"NHHC\" has a letter twice"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = {"NHWD", "HWIO", "NHWC"}});
      },
      {"letters N and C"});
  expect_error<ValueError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = kLast, .feature_group_count = 2, .batch_group_count = 2});
      },
      {"2 groups of features", "only one"});
  expect_error<ShapeError>(
      [&] {
        wrong({1, 1}, "SAME", {.layout = kLast, .batch_group_count = 4});
      },
      {"batch of 2", "multiple", "4"});
  expect_error<DTypeError>([&] { conv2d(astype(x, pred), astype(k, pred)); }, {"conv2d of pred"});
  expect_error<DTypeError>([&] { conv2d(x, k, {.preferred = bf16}); }, {"preferred", "bf16"});
  expect_error<ValueError>([&] { conv_transpose(x, k, {2, 2}, "SAME_LOWER"); }, {"SAME_LOWER"});
}

}  // namespace convolution_tests
}  // namespace
}  // namespace tessera
