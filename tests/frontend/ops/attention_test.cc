// SPDX-License-Identifier: Apache-2.0
// Attention and other layers against the values and gradients that JAX and flax give.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "tests/frontend/ops/nn_testing.h"

namespace tessera {
namespace {
namespace attention_tests {

using testing::check_nn_batches;
using testing::check_nn_sharded;
using testing::check_nn_values;
using testing::count;
using testing::expect_close;
using testing::expect_error;
using testing::floats;
using testing::kNear;
using testing::nn_pattern;
using testing::nn_patterns;
using testing::NnCase;

using Args = std::vector<Array>;

Args all_heads() { return nn_patterns({{2, 5, 4, 6}, {2, 7, 4, 6}, {2, 7, 4, 6}}); }
Args few_heads() { return nn_patterns({{2, 5, 4, 6}, {2, 7, 2, 6}, {2, 7, 2, 6}}); }
Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}
Array seen() { return nn_pattern({2, 4, 5, 7}, 5) > -0.5f; }

std::vector<NnCase> attention_cases() {
  const Array lengths = array({3, 5}), key_lengths = array({7, 2});
  return {
      {"attention", all_heads(),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2]); }},
      {"attention_grouped", few_heads(),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2]); }},
      {"attention_causal", all_heads(),
       [](const Args& a) {
         return dot_product_attention(a[0], a[1], a[2], {.scale = 0.5, .is_causal = true});
       }},
      {"attention_bias", with(few_heads(), {nn_pattern({2, 4, 5, 7}, 4)}),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2], {.bias = a[3]}); }},
      {"attention_bias_shared", with(few_heads(), {nn_pattern({1, 1, 5, 7}, 4)}),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2], {.bias = a[3]}); }},
      {"attention_mask", with(few_heads(), {seen()}),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2], {.mask = a[3]}); }},
      {"attention_mask_shared", with(all_heads(), {slice(seen(), {0, 0, 0, 0}, {2, 1, 1, 7})}),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2], {.mask = a[3]}); }},
      {"attention_lengths", with(few_heads(), {lengths, key_lengths}),
       [](const Args& a) {
         return dot_product_attention(a[0], a[1], a[2],
                                      {.query_seq_lengths = a[3], .key_value_seq_lengths = a[4]});
       }},
      {"attention_window", all_heads(),
       [](const Args& a) {
         return dot_product_attention(a[0], a[1], a[2], {.local_window_size = {{2, 1}}});
       }},
      {"attention_all",
       with(few_heads(), {nn_pattern({2, 4, 5, 7}, 4), seen(), lengths, key_lengths}),
       [](const Args& a) {
         return dot_product_attention(a[0], a[1], a[2],
                                      {.bias = a[3],
                                       .mask = a[4],
                                       .is_causal = true,
                                       .query_seq_lengths = a[5],
                                       .key_value_seq_lengths = a[6],
                                       .local_window_size = {{3, 3}}});
       }},
      {"attention_alone", nn_patterns({{5, 4, 6}, {7, 2, 6}, {7, 2, 6}}),
       [](const Args& a) { return dot_product_attention(a[0], a[1], a[2]); }},
      {"attention_residual", few_heads(),
       [](const Args& a) {
         return dot_product_attention_with_residual(a[0], a[1], a[2], {.is_causal = true}).second;
       },
       false},
  };
}

std::vector<NnCase> other_cases() {
  const Args x = nn_patterns({{2, 5, 3, 6}});
  const Array key = random::key(42);
  return {
      {"rope", x, [](const Args& a) { return rope(a[0], arange(5)); }},
      {"rope_interleaved", x,
       [](const Args& a) {
         return rope(a[0], arange(5), {.base = 100, .rotated = 4, .interleaved = true});
       }},
      {"rope_positions",
       {x[0], array(std::vector<float>{0, 1, 2, 3, 4, 7, 8, 9, 0, 1}, {2, 5})},
       [](const Args& a) { return rope(a[0], a[1], {.base = 500, .rotated = 2}); }},
      {"linear", nn_patterns({{2, 5, 4}, {4, 3}, {3}}),
       [](const Args& a) { return linear(a[0], a[1], a[2]); }},
      {"dropout",
       {nn_pattern({4, 6}, 1), key},
       [](const Args& a) { return dropout(a[1], a[0], 0.375); }},
      {"dropout_shared",
       {nn_pattern({4, 6}, 1), key},
       [](const Args& a) { return dropout(a[1], a[0], 0.5, {0}); }},
  };
}

TEST(Attention, IsThatOfJax) { check_nn_values("layers.txt", attention_cases()); }
TEST(Attention, OfBatchesIsALoop) { check_nn_batches(attention_cases()); }

TEST(Attention, HasSecondDerivatives) {
  const auto wide = [](std::vector<std::int64_t> shape, int seed) {
    return astype(nn_pattern(std::move(shape), seed), f64);
  };
  check_grads(
      [](Array q, Array k, Array v, Array b) {
        return dot_product_attention(q, k, v, {.bias = b, .is_causal = true});
      },
      std::tuple(wide({1, 3, 2, 2}, 1), wide({1, 3, 1, 2}, 2), wide({1, 3, 1, 2}, 3),
                 wide({2, 3, 3}, 4)),
      {.order = 2});
  check_grads([](Array x, Array p) { return rope(x, p, {.rotated = 4}); },
              std::tuple(wide({2, 3, 2, 5}, 1), wide({3}, 2)), {.order = 2});
}

TEST(Attention, OfHalfPrecisionSumsInSingle) {
  const Args wide = few_heads();
  Args half;
  for (const Array& a : wide) half.push_back(astype(a, bf16));
  const auto [y, residual] = dot_product_attention_with_residual(half[0], half[1], half[2]);
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_EQ(residual.dtype(), bf16);
  EXPECT_EQ(residual.shape(), (std::vector<std::int64_t>{2, 5, 4}));
  expect_close(astype(y, f32), dot_product_attention(wide[0], wide[1], wide[2]), 1e-2f);
}

TEST(Attention, WithoutVisibleKeysIsTheMean) {
  const Args a = all_heads();
  const Array out = dot_product_attention(a[0], a[1], a[2], {.mask = zeros({1, 7}, pred)});
  expect_close(out, broadcast_to(mean(a[2], 1, {.keepdims = true}), {2, 5, 4, 6}));
}

TEST(Attention, OfASplitBatchCommunicatesNothing) {
  check_nn_sharded(
      "attention",
      [](const Args& a) { return dot_product_attention(a[0], a[1], a[2], {.is_causal = true}); },
      nn_patterns({{8, 5, 4, 6}, {8, 7, 2, 6}, {8, 7, 2, 6}}), {0, 0, 0});
  check_nn_sharded(
      "lengths",
      [](const Args& a) {
        return dot_product_attention(a[0], a[1], a[2], {.key_value_seq_lengths = a[3]});
      },
      with(nn_patterns({{8, 5, 4, 6}, {8, 7, 2, 6}, {8, 7, 2, 6}}), {arange(8)}), {0, 0, 0, 0});
  // Heads are apart, too, forwards and backwards.
  const Args heads = nn_patterns({{2, 5, 16, 3}, {2, 7, 8, 3}, {2, 7, 8, 3}});
  const auto attend = [](const Args& a) {
    return dot_product_attention(a[0], a[1], a[2], {.is_causal = true});
  };
  check_nn_sharded("heads", attend, heads, {2, 2, 2});
  check_nn_sharded("gradients of heads",
                   [&](const Args& a) {
                     return grad([&](Array q) { return sum(attend({q, a[1], a[2]}) * q); })(a[0]);
                   },
                   heads, {2, 2, 2});
  check_nn_sharded("rope", [](const Args& a) { return rope(a[0], arange(5)); },
                   nn_patterns({{8, 5, 3, 6}}), {0});
  check_nn_sharded("linear", [](const Args& a) { return linear(a[0], a[1], a[2]); },
                   nn_patterns({{8, 5, 4}, {4, 3}, {3}}), {0, -1, -1});
  const Array key = random::key(1);
  check_nn_sharded("dropout", [&](const Args& a) { return dropout(a[1], a[0], 0.5); },
                   {nn_pattern({8, 4}, 1), key}, {0, -1});
}

TEST(Layers, AreThoseOfFlax) { check_nn_values("layers.txt", other_cases()); }
TEST(Layers, OfBatchesAreALoop) { check_nn_batches(other_cases()); }

TEST(Layers, OfEdgeCases) {
  const Array x = nn_pattern({4, 6}, 1), key = random::key(0);
  EXPECT_EQ(floats(dropout(key, x, 0)), floats(x));
  EXPECT_EQ(floats(dropout(key, x, 1)), std::vector<float>(24, 0.0f));
  const std::vector<float> kept = floats(dropout(key, ones({4, 6}), 0.75, {1}));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(kept[i] == 0 || kept[i] == 4) << kept[i];
    EXPECT_EQ(kept[i], kept[i / 6 * 6]);
  }
  EXPECT_EQ(dropout(key, astype(x, bf16), 0.5).dtype(), bf16);
  // Far positions are exact: the same angle, a turn further.
  const Array one = nn_pattern({1, 1, 2}, 1);
  const Array far = rope(one, array({100000.f}));
  const double angle = 100000.0;
  const std::vector<float> v = floats(one);
  expect_close(floats(far),
               {float(v[0] * std::cos(angle) - v[1] * std::sin(angle)),
                float(v[1] * std::cos(angle) + v[0] * std::sin(angle))},
               1e-4f);
}

TEST(Layers, SayWhatIsWrong) {
  const Args a = few_heads();
  expect_error<ShapeError>(
      [&] {
        dot_product_attention(a[0], a[1], ones({2, 6, 2, 6}));
      },
      {"f32[2,5,4,6]", "f32[2,6,2,6]", "key and value", kNear});
  expect_error<ShapeError>(
      [&] {
        dot_product_attention(a[0], ones({2, 7, 3, 6}), ones({2, 7, 3, 6}));
      },
      {"heads of queries, 4", "keys, 3"});
  expect_error<ShapeError>([&] { dot_product_attention(ones({4}), ones({4}), ones({4})); },
                           {"[batch, length, heads, features]"});
  expect_error<DTypeError>([&] { dot_product_attention(a[0], astype(a[1], bf16), a[2]); },
                           {"one dtype", "bf16"});
  expect_error<DTypeError>([&] { dot_product_attention(a[0], a[1], a[2], {.mask = ones({7})}); },
                           {"mask must be pred", "f32[7]", kNear});
  expect_error<ShapeError>(
      [&] {
        dot_product_attention(a[0], a[1], a[2], {.bias = ones({3, 5, 7})});
      },
      {"[2,4,5,7]", "[3,5,7]"});
  expect_error<DTypeError>(
      [&] { dot_product_attention(a[0], a[1], a[2], {.query_seq_lengths = ones({2})}); },
      {"query_seq_lengths is f32[2]", "s32[2]"});
  expect_error<ValueError>(
      [&] {
        dot_product_attention(a[0], a[1], a[2], {.local_window_size = {{-1, 0}}});
      },
      {"local_window_size (-1, 0)"});
  expect_error<ShapeError>([&] { rope(ones({5, 6}), arange(5)); }, {"rope of f32[5,6]", kNear});
  expect_error<ShapeError>([&] { rope(a[0], arange(4)); }, {"[2,5]", "[4]", kNear});
  expect_error<ValueError>([&] { rope(a[0], arange(5), {.rotated = 8}); },
                           {"8 rotated", "up to 6"});
  expect_error<ShapeError>(
      [&] {
        linear(ones({2, 3}), ones({4, 3}));
      },
      {"linear of f32[2,3] and f32[4,3]", kNear});
  expect_error<ShapeError>(
      [&] {
        linear(ones({2, 4}), ones({4, 3}), ones({4}));
      },
      {"the bias is f32[4]", "[3]"});
  const Array key = random::key(0);
  expect_error<ValueError>([&] { dropout(key, ones({3}), 1.5); }, {"rate 1.5", kNear});
  expect_error<ValueError>([&] { dropout(key, ones({3}), 0.5, {1}); }, {"axis 1"});
}

}  // namespace attention_tests
}  // namespace
}  // namespace tessera
