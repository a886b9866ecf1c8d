// SPDX-License-Identifier: Apache-2.0
// Reductions over windows against the values and gradients that JAX and flax give.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace pooling_tests {

using testing::check_nn_batches;
using testing::check_nn_sharded;
using testing::check_nn_values;
using testing::counting;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;
using testing::nn_pattern;
using testing::nn_patterns;
using testing::NnCase;

using Args = std::vector<Array>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<NnCase> pool_cases() {
  const Args image = nn_patterns({{2, 5, 4, 3}});
  return {
      {"max_pool", image,
       [](const Args& a) {
         return max_pool(a[0], {2, 2}, {.strides = {2, 1}});
       }},
      {"max_pool_same", image,
       [](const Args& a) {
         return max_pool(a[0], {3, 2}, {.strides = {2, 2}, .padding = "SAME"});
       }},
      {"min_pool", image,
       [](const Args& a) {
         return min_pool(a[0], {3, 3}, {.strides = {1, 2}, .padding = {{1, 1}, {0, 2}}});
       }},
      {"avg_pool", image,
       [](const Args& a) {
         return avg_pool(a[0], {2, 3}, {.strides = {1, 2}});
       }},
      {"avg_pool_same", image,
       [](const Args& a) {
         return avg_pool(a[0], {3, 2}, {.strides = {2, 2}, .padding = "SAME"});
       }},
      {"avg_pool_counted", image,
       [](const Args& a) {
         return avg_pool(a[0], {3, 2},
                         {.strides = {2, 2}, .padding = "SAME", .count_include_pad = false});
       }},
      {"avg_pool_alone", nn_patterns({{7, 2}}),
       [](const Args& a) {
         return avg_pool(a[0], {3},
                         {.strides = {2}, .padding = "SAME", .count_include_pad = false});
       }},
      {"max_pool_batches", nn_patterns({{2, 2, 5, 2}}),
       [](const Args& a) { return max_pool(a[0], {2}, {.strides = {2}}); }},
  };
}

Array larger(const Array& a, const Array& b) { return maximum(a, b); }

std::vector<NnCase> window_cases() {
  const Args plane = nn_patterns({{4, 5}});
  return {
      {"window_sum", plane,
       [](const Args& a) {
         return reduce_window(a[0], 0.0f, [](Array x, Array y) { return x + y; }, {2, 2},
                              {.strides = {1, 2},
                               .padding = {{1, 0}, {0, 1}},
                               .base_dilation = {2, 1},
                               .window_dilation = {1, 2}});
       }},
      {"window_product", plane,
       [](const Args& a) {
         return reduce_window(a[0], 1, [](Array x, Array y) { return x * y; }, {2, 3});
       },
       false},
      {"window_max", plane,
       [](const Args& a) {
         return reduce_window(a[0], 0.25f, larger, {2, 2}, {.strides = {2, 2}, .padding = "SAME"});
       },
       false},
      {"window_dilated", plane,
       [](const Args& a) {
         return reduce_window(
             a[0], -kInfinity, larger, {2, 2},
             {.padding = "SAME", .base_dilation = {2, 1}, .window_dilation = {1, 2}});
       },
       false},
      {"window_function", nn_patterns({{6}}),
       [](const Args& a) {
         return reduce_window(a[0], 0, [](Array x, Array y) { return x + y + x * y; }, {3});
       },
       false},
      {"window_pair", nn_patterns({{9}}),
       [](const Args& a) {
         using Pair = std::pair<Array, Array>;
         const auto better = [](Pair x, Pair y) {
           const Array first = x.first >= y.first;
           return Pair(where(first, x.first, y.first), where(first, x.second, y.second));
         };
         return reduce_window(Pair(a[0], arange(9)), Pair(full({}, -kInfinity), full({}, -1)),
                              better, {3}, {.strides = {2}})
             .second;
       },
       false},
  };
}

TEST(Pooling, IsThatOfFlax) { check_nn_values("convolution.txt", pool_cases()); }
TEST(Pooling, OfWindowsIsThatOfJax) { check_nn_values("convolution.txt", window_cases()); }

TEST(Pooling, OfBatchesIsALoop) {
  check_nn_batches(pool_cases());
  std::vector<NnCase> windows = window_cases();
  windows.pop_back();  // its function has another array, which is the same for all of the batch
  check_nn_batches(windows);
}

TEST(Pooling, HasTheDerivativesOfDifferences) {
  const Array x = astype(nn_pattern({4, 5}, 1), f64) + 0.01;
  check_grads(
      [](Array v) {
        return reduce_window(v, 1, [](Array a, Array b) { return a * b; }, {2, 3});
      },
      std::tuple(x), {.order = 2});
  check_grads(
      [](Array v) {
        return reduce_window(v, 0, [](Array a, Array b) { return a + b + a * b; }, {2, 2});
      },
      std::tuple(x), {.order = 2});
  check_grads(
      [](Array v) {
        return avg_pool(v, {3}, {.padding = "SAME", .count_include_pad = false}) +
               max_pool(v, {2}, {.padding = "SAME"}) * 0;
      },
      std::tuple(x), {.order = 2});
}

TEST(Pooling, TakesOtherTypes) {
  const Array x = reshape(arange(12), {1, 6, 2});
  EXPECT_EQ(max_pool(x, {2}, {.strides = {2}}).to_vector<int>(),
            (std::vector<int>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(min_pool(x, {3}, {.padding = "SAME"}).to_vector<int>()[11], 9);
  EXPECT_EQ(floats(avg_pool(x, {2}, {.strides = {3}})), (std::vector<float>{1, 2, 7, 8}));
  EXPECT_EQ(avg_pool(astype(x, bf16), {2}).dtype(), bf16);
  EXPECT_EQ(reduce_window(x < 5, false, [](Array a, Array b) { return a | b; }, {1, 6, 2})
                .to_vector<bool>(),
            std::vector<bool>{true});
  // Of a scalar: one place, with the initial value.
  EXPECT_EQ(reduce_window(2.0f, 3.0f, [](Array a, Array b) { return a + b; }, {}).item<float>(), 5);
}

TEST(Pooling, ByAFunctionMayUseNumbersFromOutside) {
  const Array x = nn_pattern({5}, 1), two = full({}, 2, f32);
  const auto want = [&](float factor) {
    const std::vector<float> v = floats(x);
    std::vector<float> out;
    for (std::size_t i = 0; i + 1 < v.size(); ++i) out.push_back((v[i] + v[i + 1]) * factor);
    return out;
  };
  const auto doubled = [&](Array a, Array b) { return a + b * two; };
  const auto tripled = [](Array a, Array b) { return a + 3.0f * b; };
  EXPECT_EQ(floats(reduce_window(x, 0, doubled, {2})), want(2));
  EXPECT_EQ(floats(reduce_window(x, 0, tripled, {2})), want(3));
  EXPECT_EQ(floats(jit([&](Array v) { return reduce_window(v, 0, doubled, {2}); })(x)), want(2));
}

TEST(Pooling, OfNothingIsNothing) {
  using Dims = std::vector<std::int64_t>;
  EXPECT_EQ(max_pool(zeros({0, 5, 5, 3}), {2, 2}).shape(), (Dims{0, 4, 4, 3}));
  EXPECT_EQ(avg_pool(zeros({2, 2, 2, 3}), {3, 3}).shape(), (Dims{2, 0, 0, 3}));
  EXPECT_EQ(floats(avg_pool(zeros({1, 0, 1}), {2}, {.padding = {{1, 1}}})),
            (std::vector<float>{0}));
}

TEST(Pooling, OfASplitBatchCommunicatesNothing) {
  for (const NnCase& c : pool_cases()) {
    if (c.args[0].ndim() != 4 || c.name == "max_pool_batches") continue;
    check_nn_sharded(c.name, c.f, {nn_pattern({8, 5, 4, 3}, 1)}, {0});
  }
}

TEST(Pooling, SaysWhatIsWrong) {
  const Array x = ones({2, 5, 4, 3}), line = ones({5});
  const auto plus = [](Array a, Array b) { return a + b; };
  expect_error<ShapeError>(
      [&] {
        max_pool(x, {2, 2, 2, 2});
      },
      {"max_pool", "f32[2,5,4,3]", "4 dimensions", kNear});
  expect_error<ValueError>(
      [&] {
        avg_pool(x, {2, 2}, {.strides = {1}});
      },
      {"avg_pool", "strides [1]", kNear});
  expect_error<ValueError>([&] { min_pool(x, {0, 2}); }, {"min_pool", "1 or more"});
  expect_error<ValueError>(
      [&] {
        min_pool(x, {1, 2}, {.padding = {{1, 1}}});
      },
      {"padding of 1", "2"});
  expect_error<DTypeError>([&] { max_pool(astype(x, c64), {2, 2}); }, {"max_pool", "complex"});
  expect_error<ShapeError>(
      [&] {
        reduce_window(x, 0, plus, {2, 2});
      },
      {"window of 2", "[2,5,4,3]", kNear});
  expect_error<ShapeError>([&] { reduce_window(line, line, plus, {2}); },
                           {"f32[5] must be a scalar", kNear});
  expect_error<DTypeError>([&] { reduce_window(line, zeros({}, s32), plus, {2}); },
                           {"s32[]", "f32[5]", kNear});
  expect_error<TypeError>(
      [&] { reduce_window(line, 0, [](Array a, Array b) { return a < b; }, {2}); },
      {"must return f32[]", "pred[]", kNear});
  expect_error<TracerError>(
      [&] {
        jit([&](Array v) {
          return reduce_window(line, 0, [&](Array a, Array b) { return a + b * sum(v); }, {2});
        })(line);
      },
      {"from outside", "the function of reduce_window"});
  expect_error<ShapeError>(
      [&] {
        reduce_window(std::vector<Array>{line, ones({4})}, std::vector<Array>{0.0f, 0.0f},
                      [](std::vector<Array> a, std::vector<Array>) { return a; }, {2});
      },
      {"[5]", "[4]", "one shape", kNear});
}

}  // namespace pooling_tests
}  // namespace
}  // namespace tessera
