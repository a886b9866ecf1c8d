// SPDX-License-Identifier: Apache-2.0
// Indexed updates: derivatives as JAX has them, batches, what is refused.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace {
namespace indexed_update {

using testing::expect_close;
using testing::expect_error;
using testing::floats;

// Numbers of gradients are JAX's.
TEST(IndexedUpdate, HasTheGradientsOfJax) {
  const Array x = array({1.f, 2.f, 3.f, 4.f, 5.f}), twice = array({1, 1, 2});
  const auto gradient = [](auto f, const Array& at) { return floats(grad(f)(at)); };
  expect_close(gradient([&](Array v) { return sum(at(v, {twice}).min(2.0)); }, x),
               {1, 1 / 3.f, 0, 1, 1});
  expect_close(
      gradient([&](Array v) { return sum(at(x, {twice}).min(v)); }, array({2.f, 2.f, 1.f})),
      {1 / 3.f, 1 / 3.f, 1});
  expect_close(gradient([&](Array v) { return sum(at(v, {twice}).multiply(2.0)); }, x),
               {1, 4, 2, 1, 1});
  expect_close(gradient([&](Array v) { return sum(at(x, {twice}).set(v) * arange(5.0)); },
                        array({2.f, 3.f, 1.f})),
               {0, 1, 2});
  expect_close(gradient(
                   [&](Array v) {
                     return sum(at(v, {Slice{1, 3}}).min(2.0));
                   },
                   x),
               {1, 0.5, 0, 1, 1});
  expect_close(gradient(
                   [&](Array v) {
                     return sum(at(x, {array({1, 3, 2})}).multiply(v, {.unique_indices = true}));
                   },
                   array({2.f, 3.f, 1.f})),
               {2, 4, 3});
}

TEST(IndexedUpdate, OfABatchIsThatOfEachEntry) {
  const Array x = testing::counting({3, 4}), ids = reshape(array({2, 0, 2, 1, -1, 9}), {3, 2});
  const auto one = [](Array v, Array i) { return at(v, {i}).add(10.0); };
  const Array all = vmap(one)(x, ids);
  for (int b = 0; b < 3; ++b) {
    expect_close(index(all, {b}), one(index(x, {b}), index(ids, {b})));
  }
}

TEST(IndexedUpdate, RefusesWhatDoesNotFit) {
  const Array x = ones({2, 3});
  expect_error<ShapeError>([&] { (void)at(x, {0}).set(ones({2})); },
                           {"at.set", "f32[2]", "[3]", testing::kNear});
  expect_error<ValueError>([&] { (void)at(x, {2}).set(1); }, {"at.set", "-2 to 1", testing::kNear});
  expect_error<DTypeError>([&] { (void)at(x, {0}).set(std::complex<float>(0, 1)); },
                           {"at.set", "imaginary"});
  expect_error<DTypeError>([&] { (void)at(x, {ones({1})}).set(1); }, {"at.set", "integer"});
  expect_error<ShapeError>([&] { (void)index(x, {ones({3}, pred)}); }, {"mask", "f32[2,3]"});
  expect_error<TracerError>([&] { (void)jit([](Array v) { return at(v, {v > 0}).set(0); })(x); },
                            {"where", "pred"});
  expect_error<TracerError>([&] { (void)jit([](Array v) { return unique(v); })(x); },
                            {"unique", "size"});
  expect_error<TracerError>(
      [&] { (void)jit([](Array v) { return segment_sum(v, astype(v, s32)); })(ones({3})); },
      {"segment_sum", "num_segments"});
  expect_error<ValueError>([&] { (void)partition(x, 3); }, {"partition", "kth", "3"});
}

}  // namespace indexed_update
}  // namespace
}  // namespace tessera
