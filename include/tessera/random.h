// SPDX-License-Identifier: Apache-2.0
// Random numbers from explicit keys.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>

/// @file
/// Random numbers without hidden state, as in jax.random.
///
/// A key is a u32[2] array, and equal keys give equal numbers: bit for bit those of JAX's
/// threefry2x32 in its partitionable form (Salmon et al., "Parallel random numbers: as easy as 1,
/// 2, 3", 2011), whatever the devices and the sharding. Use each key once; `split` makes new ones.
/// @code
/// Array keys = random::split(random::key(0), 2);
/// Array x = random::normal(index(keys, {0}), {8, 16});
/// @endcode
/// @throws DTypeError if a key isn't u32 or the requested dtype isn't supported. Floating-point
///   distributions support f16, bf16, f32 and f64.
/// @throws ShapeError if a key isn't u32[2], a size is negative, or a parameter doesn't broadcast
///   to the shape.
///
/// All messages name the caller's line.

namespace tessera::random {

/// Shape of a result; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Returns the key of a seed. All 64 bits of a plain number or 64-bit integer are used (as in JAX
/// with 64-bit types enabled; without them JAX uses the lower half). Narrower arrays give the lower
/// half.
/// @throws TypeError if the seed isn't an integer scalar.
Array key(Operand seed);
/// Derives n new keys: u32[n, 2].
Array split(Operand key, std::int64_t n = 2);
/// Derives an array of new keys: u32[shape.., 2].
Array split(Operand key, Shape shape);
/// Derives a new key from a key and the lower 32 bits of a number.
/// @throws TypeError if the number isn't an integer scalar.
Array fold_in(Operand key, Operand data);

/// Uniformly distributed bits, as u8, u16, u32 or u64.
Array bits(Operand key, Shape shape = {}, DType dtype = DType::u32);
/// Uniformly distributed floats in [minval, maxval).
Array uniform(Operand key, Shape shape = {}, DType dtype = DType::f32, Operand minval = 0.0,
              Operand maxval = 1.0);
/// Uniformly distributed integers in [minval, maxval) of 8 to 64 bits. Bounds out of the dtype's
/// range are clamped to it.
/// @throws DTypeError if a bound isn't an integer or is a u64 array.
Array randint(Operand key, Shape shape, Operand minval, Operand maxval, DType dtype = DType::s32);
/// Normal distribution with mean 0 and variance 1; c64 and c128 are supported, too.
Array normal(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Normal distribution truncated to (lower, upper).
Array truncated_normal(Operand key, Operand lower, Operand upper, Shape shape = {},
                       DType dtype = DType::f32);
/// Bernoulli distribution: true with probability p (pred). The result has p's shape unless one is
/// given.
Array bernoulli(Operand key, Operand p = 0.5, std::optional<Shape> shape = {});
/// Exponential distribution with rate 1.
Array exponential(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Standard Gumbel distribution, -log(-log(u)).
Array gumbel(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Laplace distribution with mean 0 and scale 1.
Array laplace(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Categorical distribution: indices (s32) drawn along an axis of unnormalised log-probabilities.
/// @param key  The key.
/// @param logits  [.., N, ..].
/// @param axis  The axis of size N.
/// @param shape  Shape of the result; must end with that of the logits without the axis, which is
///   the default.
Array categorical(Operand key, Operand logits, std::int64_t axis = -1,
                  std::optional<Shape> shape = {});

/// The integers 0, .., n - 1 (s32) in random order.
Array permutation(Operand key, std::int64_t n);
/// The slices of x along an axis in random order.
/// @param key  The key.
/// @param x  The array.
/// @param axis  The axis.
/// @param independent  Shuffle each vector along the axis in an order of its own.
Array permutation(Operand key, Operand x, std::int64_t axis = 0, bool independent = false);

/// Options of `choice`.
struct ChoiceOptions {
  /// Whether an element may be drawn more than once.
  bool replace = true;
  /// Probabilities of the elements, a float vector [n]; uniform by default.
  std::optional<Array> p{};
};
/// Draws from the integers 0, .., n - 1 (s32).
/// @throws ValueError if n is less than 1, or more elements than n are drawn without replacement.
Array choice(Operand key, std::int64_t n, Shape shape = {}, const ChoiceOptions& options = {});
/// Draws from the slices of an array along dimension 0: values [N, D..] -> [shape.., D..].
/// @throws ValueError as above; ShapeError if `values` is a scalar.
Array choice(Operand key, Operand values, Shape shape = {}, const ChoiceOptions& options = {});

}  // namespace tessera::random
