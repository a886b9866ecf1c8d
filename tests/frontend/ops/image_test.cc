// SPDX-License-Identifier: Apache-2.0
// Images in other sizes against the values and gradients that jax.image gives.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace image_tests {

using image::resize;
using image::ResizeMethod;
using image::scale_and_translate;
using testing::check_nn_batches;
using testing::check_nn_sharded;
using testing::check_nn_values;
using testing::expect_error;
using testing::kNear;
using testing::nn_pattern;
using testing::nn_patterns;
using testing::NnCase;

using Args = std::vector<Array>;

const std::vector<std::pair<std::string, ResizeMethod>> kMethods = {
    {"nearest", ResizeMethod::nearest},   {"linear", ResizeMethod::linear},
    {"cubic", ResizeMethod::cubic},       {"lanczos3", ResizeMethod::lanczos3},
    {"lanczos5", ResizeMethod::lanczos5}, {"cubic_pytorch", ResizeMethod::cubic_pytorch},
    {"area", ResizeMethod::area}};

std::vector<NnCase> resize_cases() {
  std::vector<NnCase> out;
  for (const auto& [name, m] : kMethods) {
    const ResizeMethod method = m;
    out.push_back({"up_" + name, nn_patterns({{2, 4, 3, 2}}), [=](const Args& a) {
                     return resize(a[0], {2, 7, 6, 2}, method);
                   }});
    out.push_back({"down_" + name, nn_patterns({{1, 7, 9}}), [=](const Args& a) {
                     return resize(a[0], {1, 3, 4}, method);
                   }});
    out.push_back({"sharp_" + name, nn_patterns({{7, 5}}), [=](const Args& a) {
                     return resize(a[0], {3, 9}, method, false);
                   }});
  }
  out.push_back({"twice_nearest", nn_patterns({{3, 4}}), [](const Args& a) {
                   return resize(a[0], {6, 2}, ResizeMethod::nearest);
                 }});
  return out;
}

std::vector<NnCase> move_cases() {
  std::vector<NnCase> out;
  const Args args{nn_pattern({4, 7}, 1), array({1.5f, 0.75f}), array({-0.5f, 1.25f})};
  for (const auto& [name, m] : kMethods) {
    const ResizeMethod method = m;
    if (name != "linear" && name != "cubic" && name != "lanczos3") continue;
    for (const bool antialias : {true, false}) {
      out.push_back(
          {(antialias ? "move_" : "move_sharp_") + name, args,
           [=](const Args& a) {
             return scale_and_translate(a[0], {5, 6}, {0, 1}, a[1], a[2], method, antialias);
           },
           antialias, 1e-4f});
    }
  }
  out.push_back(
      {"move_one", {nn_pattern({2, 3}, 1), array({2.0f}), array({0.5f})}, [](const Args& a) {
         return scale_and_translate(a[0], {2, 5}, {-1}, a[1], a[2], ResizeMethod::linear);
       }});
  return out;
}

TEST(Image, IsThatOfJax) {
  check_nn_values("convolution.txt", resize_cases());
  check_nn_values("convolution.txt", move_cases());
}

TEST(Image, OfBatchesIsALoop) {
  check_nn_batches(resize_cases());
  check_nn_batches({move_cases()[0], move_cases().back()});
}

TEST(Image, KeepsOrChangesTypes) {
  const Array x = reshape(arange(6), {2, 3});
  EXPECT_EQ(resize(x, {2, 6}, ResizeMethod::nearest).to_vector<int>(),
            (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(resize(x, {2, 6}, ResizeMethod::linear).dtype(), f32);
  EXPECT_EQ(resize(astype(x, bf16), {4, 3}, ResizeMethod::cubic).dtype(), bf16);
  EXPECT_EQ(resize(astype(x, f64), {4, 3}, ResizeMethod::cubic).dtype(), f64);
  EXPECT_EQ(resize(x, {0, 3}, ResizeMethod::linear).shape(), (std::vector<std::int64_t>{0, 3}));
  check_grads(
      [](Array v) {
        return resize(v, {5, 2}, ResizeMethod::lanczos3);
      },
      std::tuple(astype(nn_pattern({3, 4}, 1), f64)), {.order = 2});
}

TEST(Image, OfASplitBatchCommunicatesNothing) {
  for (const auto& [name, m] : kMethods) {
    const ResizeMethod method = m;
    check_nn_sharded(name,
                     [=](const Args& a) {
                       return resize(a[0], {8, 6, 5, 3}, method);
                     },
                     {nn_pattern({8, 4, 7, 3}, 1)}, {0});
  }
}

TEST(Image, SaysWhatIsWrong) {
  const Array x = ones({2, 3}), two = ones({2});
  expect_error<ShapeError>([&] { resize(x, {2}, ResizeMethod::linear); },
                           {"image::resize", "f32[2,3]", "[2]", kNear});
  expect_error<ShapeError>([&] { resize(x, {2, -3}, ResizeMethod::linear); }, {"negative"});
  expect_error<ShapeError>(
      [&] {
        resize(ones({2, 0}), {2, 3}, ResizeMethod::nearest);
      },
      {"dimension 1", "no elements", kNear});
  expect_error<DTypeError>(
      [&] {
        resize(astype(x, c64), {4, 3}, ResizeMethod::cubic);
      },
      {"complex"});
  expect_error<ValueError>(
      [&] {
        scale_and_translate(x, {2, 3}, {0, 1}, two, two, ResizeMethod::nearest);
      },
      {"nearest", kNear});
  expect_error<ShapeError>(
      [&] {
        scale_and_translate(x, {2, 3}, {0}, two, two, ResizeMethod::linear);
      },
      {"shape [1]", "f32[2]"});
  expect_error<ShapeError>(
      [&] {
        scale_and_translate(x, {2, 4}, {0}, ones({1}), ones({1}), ResizeMethod::linear);
      },
      {"dimension 1 changes", "spatial_dims"});
  expect_error<ValueError>(
      [&] {
        scale_and_translate(x, {2, 3}, {0, -2}, two, two, ResizeMethod::linear);
      },
      {"twice"});
}

}  // namespace image_tests
}  // namespace
}  // namespace tessera
