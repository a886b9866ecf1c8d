// SPDX-License-Identifier: Apache-2.0
// Normalisation layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tessera/array.h>
#include <tessera/ops/nn.h>
#include <tessera/ops/reductions.h>

/// @file
/// Normalisation, with the definitions of flax.linen: (x - mean) / sqrt(variance + epsilon), times
/// a scale, plus a bias. The functions differ in what mean and variance are taken of.
///
/// Integers become f32. Statistics of f16 and bf16 are computed in f32, and the result has the
/// promoted dtype of x, scale and bias. Scale and bias may be absent.
///
/// @throws ShapeError if scale, bias or `where` don't broadcast to x as described.
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera {

/// Options of `layer_norm`, `rms_norm`, `group_norm` and `instance_norm`.
struct NormOptions {
  /// Dimensions that statistics are taken over; only `layer_norm` and `rms_norm` look at it.
  Axes axes = -1;
  /// Added to the variance.
  double epsilon = 1e-6;
  /// See VarianceAlgorithm.
  VarianceAlgorithm algorithm = VarianceAlgorithm::fast;
  /// Elements that statistics are taken of, an array that broadcasts to x; all by default.
  std::optional<Array> where{};
};

/// Normalises each vector along `options.axes`, by default the last dimension (layer
/// normalisation).
/// @param x  [.., C].
/// @param scale  An array that broadcasts to x, for example [C].
/// @param bias  As scale.
/// @param options  See NormOptions.
/// @code
/// Array y = layer_norm(x, p.scale, p.bias);
/// @endcode
Array layer_norm(Operand x, const std::optional<Array>& scale = {},
                 const std::optional<Array>& bias = {}, const NormOptions& options = {});
/// x / sqrt(mean(x^2) + epsilon) * scale along `options.axes`, as `layer_norm` without a mean.
Array rms_norm(Operand x, const std::optional<Array>& scale = {}, const NormOptions& options = {});
/// Normalises over the features of each of `groups` equal groups and over all dimensions between
/// the batch and the features: x [B, .., C], scale and bias [C].
/// @throws ValueError if C isn't a multiple of `groups`, or x has fewer than two dimensions.
Array group_norm(Operand x, std::int64_t groups, const std::optional<Array>& scale = {},
                 const std::optional<Array>& bias = {}, const NormOptions& options = {});
/// Normalises each feature of each entry of the batch: x [B, .., C], scale and bias [C].
/// @throws ValueError if x has fewer than two dimensions.
Array instance_norm(Operand x, const std::optional<Array>& scale = {},
                    const std::optional<Array>& bias = {}, const NormOptions& options = {});

/// Options of `batch_norm`.
struct BatchNormOptions {
  /// Normalise by the batch's statistics and update the running ones; if false, normalise by the
  /// running ones.
  bool training = true;
  /// The dimension of features; statistics are taken over all others.
  std::int64_t axis = -1;
  /// Part of the running statistics that an update keeps.
  double momentum = 0.99;
  /// Added to the variance.
  double epsilon = 1e-5;
  /// See VarianceAlgorithm.
  VarianceAlgorithm algorithm = VarianceAlgorithm::fast;
  /// Elements that statistics are taken of; all by default.
  std::optional<Array> where{};
  /// Axes of `shard_map` or `vmap` over which statistics are averaged, too; none by default. In
  /// `jit` statistics are those of the whole batch, however it is sharded.
  std::vector<std::string> axis_names{};
};
/// Result of `batch_norm`.
struct BatchNormResult {
  /// The normalised array, of x's shape.
  Array y;
  /// The new running statistics, [C]; if not training the old ones.
  Array mean, variance;
};
/// Normalises each feature over the batch (batch normalisation).
/// @param x  By default [B, .., C].
/// @param mean  Running mean, [C].
/// @param variance  Running variance, [C].
/// @param scale  [C].
/// @param bias  [C].
/// @param options  See BatchNormOptions.
/// @code
/// auto [y, mean, variance] = batch_norm(x, s.mean, s.variance, p.scale, p.bias);
/// @endcode
BatchNormResult batch_norm(Operand x, const Array& mean, const Array& variance,
                           const std::optional<Array>& scale = {},
                           const std::optional<Array>& bias = {},
                           const BatchNormOptions& options = {});

}  // namespace tessera
