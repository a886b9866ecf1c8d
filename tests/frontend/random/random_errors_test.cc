// SPDX-License-Identifier: Apache-2.0
// Errors of random functions: keys, shapes, dtypes and parameters that don't fit.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera {
namespace {

using testing::expect_error;
using testing::kNear;

class RandomErrors : public ::testing::Test {
 protected:
  Array key_ = random::key(0), three_ = ones({3}), count_ = array({1, 2, 3});
};

TEST_F(RandomErrors, OfKeys) {
  const Array keys = random::split(key_, 4);
  expect_error<ShapeError>([&] { random::normal(keys, {2}); }, {"u32[4,2]", "take one", kNear});
  expect_error<DTypeError>([&] { random::uniform(ones({2})); }, {"f32[2]", "random::key", kNear});
  expect_error<ShapeError>([&] { random::bits(zeros({3}, u32)); }, {"u32[3]", kNear});
  expect_error<TypeError>([&] { random::key(1.5); }, {"integer scalar", kNear});
  expect_error<TypeError>([&] { random::key(count_); }, {"s32[3]", kNear});
  expect_error<TypeError>([&] { random::fold_in(key_, three_); }, {"f32[3]", kNear});
  expect_error<DTypeError>([&] { random::wrap_key_data(count_); }, {"s32[3]", "u32", kNear});
  expect_error<ShapeError>([&] { random::key_data(zeros({3}, u32)); }, {"u32[3]", kNear});
  expect_error<ShapeError>([&] { random::permutation(keys, 3); }, {"u32[4,2]", kNear});
  expect_error<ShapeError>([&] { random::orthogonal(keys, 3); }, {"u32[4,2]", kNear});
}

TEST_F(RandomErrors, OfShapes) {
  expect_error<ShapeError>([&] { random::uniform(key_, {2, -1}); }, {"[2,-1]", "0 or more", kNear});
  expect_error<ShapeError>([&] { random::poisson(key_, 1.0, random::Shape{-3}); }, {"[-3]", kNear});
  expect_error<ShapeError>([&] { random::bernoulli(key_, three_, {2}); }, {"[2]", "f32[3]", kNear});
  expect_error<ShapeError>([&] { random::gamma(key_, three_, {3, 2}); }, {"[3,2]", "a is", kNear});
  expect_error<ShapeError>([&] { random::beta(key_, three_, ones({2})); }, {"b is f32[2]", kNear});
  expect_error<ShapeError>([&] { random::binomial(key_, three_, ones({2})); }, {"f32[2]", kNear});
  expect_error<ShapeError>([&] { random::triangular(key_, three_, 0.5, ones({2})); },
                           {"right is f32[2]", kNear});
  expect_error<ShapeError>([&] { random::dirichlet(key_, 1.0); }, {"alpha", kNear});
  expect_error<ShapeError>([&] { random::multinomial(key_, 3, 1.0); }, {"p is a scalar", kNear});
  expect_error<ShapeError>([&] { random::ball(key_, 2, three_); }, {"f32[3]", "a scalar", kNear});
  expect_error<ShapeError>(
      [&] {
        random::categorical(key_, ones({3, 2}), 1, {4});
      },
      {"[4]", "end with [3]", kNear});
  expect_error<ShapeError>(
      [&] {
        random::multivariate_normal(key_, three_, ones({2, 2}));
      },
      {"cov must be [.., 3, 3]", kNear});
  expect_error<ShapeError>(
      [&] {
        random::multivariate_normal(key_, ones({4, 3}), eye(3), random::Shape{2});
      },
      {"[2] and [4]", "broadcast", kNear});
}

TEST_F(RandomErrors, OfParameters) {
  expect_error<ShapeError>([&] { random::choice(key_, 4, {2}, {.p = three_}); },
                           {"4 elements", "f32[3]", kNear});
  expect_error<ValueError>([&] { random::choice(key_, 0, {2}); }, {"0 elements", kNear});
  expect_error<ValueError>([&] { random::choice(key_, 3, {4}, {.replace = false}); },
                           {"4 elements", "at most 3", kNear});
  expect_error<ShapeError>([&] { random::choice(key_, Array(2.0f), {2}); }, {kNear});
  expect_error<ValueError>([&] { random::categorical(key_, zeros({0})); }, {"f32[0]", kNear});
  expect_error<ValueError>([&] { random::categorical(key_, three_, -1, {4}, {.replace = false}); },
                           {"4 draws", "at most 3", kNear});
  expect_error<ValueError>([&] { random::categorical(key_, three_, 1); }, {"axis 1", kNear});
  expect_error<ValueError>([&] { random::permutation(key_, three_, 1); }, {"axis 1", kNear});
  expect_error<ValueError>([&] { random::orthogonal(key_, -1); }, {"-1 rows", kNear});
}

TEST_F(RandomErrors, OfDtypes) {
  expect_error<DTypeError>([&] { random::normal(key_, {2}, s32); }, {"s32", kNear});
  expect_error<DTypeError>([&] { random::uniform(key_, {2}, c64); }, {"c64", kNear});
  expect_error<DTypeError>([&] { random::bits(key_, {2}, s32); }, {"s32", "u8, u16", kNear});
  expect_error<DTypeError>([&] { random::randint(key_, {2}, 0, 4, f32); }, {"f32", kNear});
  expect_error<DTypeError>([&] { random::randint(key_, {2}, 0.5, 4); }, {"a bound is", kNear});
  expect_error<DTypeError>([&] { random::geometric(key_, 0.5, {2}, f32); }, {"integers", kNear});
  expect_error<DTypeError>([&] { random::exponential(key_, {2}, pred); }, {"pred", kNear});
  expect_error<DTypeError>([&] { random::orthogonal(key_, 2, {}, f16); }, {"f16", kNear});
  expect_error<DTypeError>([&] { random::rademacher(key_, {2}, c64); }, {"c64", kNear});
}

}  // namespace
}  // namespace tessera
