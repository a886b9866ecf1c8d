// SPDX-License-Identifier: Apache-2.0
// Random numbers without hidden state: equal keys give equal numbers, bit for bit those of
// jax.random (threefry2x32, partitionable), whatever the devices and the sharding.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>

/// A key is a u32[2] array. Use each key once; `split` makes new ones.
/// @code
/// Array keys = random::split(random::key(0), 2);
/// Array x = random::normal(index(keys, {0}), {8, 16});
/// @endcode
namespace tessera::random {

using Shape = std::vector<std::int64_t>;

/// The key of a seed, all 64 bits of it (JAX with 64-bit types; without them JAX takes the lower
/// half alone). Arrays of 32 bits or less make the lower half.
Array key(Operand seed);
/// n new keys: u32[n,2].
Array split(Operand key, std::int64_t n = 2);
/// Keys of that shape: u32[shape...,2].
Array split(Operand key, Shape shape);
/// A new key from a key and a number (its lower 32 bits).
Array fold_in(Operand key, Operand data);

/// Uniformly distributed bits: u8, u16, u32 or u64.
Array bits(Operand key, Shape shape = {}, DType dtype = DType::u32);
/// In [minval, maxval).
Array uniform(Operand key, Shape shape = {}, DType dtype = DType::f32, Operand minval = 0.0,
              Operand maxval = 1.0);
/// Integers in [minval, maxval); bounds outside of the dtype are cut to it.
Array randint(Operand key, Shape shape, Operand minval, Operand maxval, DType dtype = DType::s32);
/// Normally distributed with mean 0 and variance 1; complex dtypes too.
Array normal(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// The normal distribution cut to (lower, upper).
Array truncated_normal(Operand key, Operand lower, Operand upper, Shape shape = {},
                       DType dtype = DType::f32);
/// True with probability p; of p's shape unless one is given.
Array bernoulli(Operand key, Operand p = 0.5, std::optional<Shape> shape = {});
Array exponential(Operand key, Shape shape = {}, DType dtype = DType::f32);
Array gumbel(Operand key, Shape shape = {}, DType dtype = DType::f32);
Array laplace(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Positions (s32) along an axis of unnormalized log-probabilities. `shape`: of the result; it ends
/// with that of the logits without the axis.
Array categorical(Operand key, Operand logits, std::int64_t axis = -1,
                  std::optional<Shape> shape = {});

/// 0, ..., n-1 in random order (s32).
Array permutation(Operand key, std::int64_t n);
/// Slices along an axis in random order; `independent`: each vector along the axis in its own.
Array permutation(Operand key, Operand x, std::int64_t axis = 0, bool independent = false);

struct ChoiceOptions {
  /// May an element be drawn more than once?
  bool replace = true;
  /// Probabilities of the elements; equal by default.
  std::optional<Array> p{};
};
/// Elements drawn from 0, ..., n-1 (s32), or from the slices of an array along dim 0.
Array choice(Operand key, std::int64_t n, Shape shape = {}, const ChoiceOptions& options = {});
Array choice(Operand key, Operand values, Shape shape = {}, const ChoiceOptions& options = {});

}  // namespace tessera::random
