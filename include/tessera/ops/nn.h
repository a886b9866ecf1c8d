// SPDX-License-Identifier: Apache-2.0
// Activation functions and other functions of neural networks.
#pragma once

#include <cstdint>
#include <optional>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Functions of neural networks, as in jax.nn.
///
/// Activations are elementwise and keep the shape. Except in `identity`, `relu`, `relu6` and
/// `hard_tanh` integers become f32. Unless stated otherwise they aren't defined for complex
/// numbers. At kinks derivatives are those of JAX: 0 for `relu` at 0, and for `relu6` at 0 and 6.
///
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera {

/// x itself; keeps x's dtype. Complex numbers are supported.
Array identity(Operand x);
/// Rectified linear unit, max(x, 0); keeps x's dtype.
Array relu(Operand x);
/// min(max(x, 0), 6); keeps x's dtype.
Array relu6(Operand x);
/// Gaussian error linear unit, x * Phi(x) with the standard normal distribution Phi.
/// @param x  The array.
/// @param approximate  Use the tanh approximation of Phi (as jax.nn.gelu does by default); if false
///   Phi is computed by `erfc`.
Array gelu(Operand x, bool approximate = true);
/// Sigmoid linear unit (swish), x * sigmoid(x). Complex numbers are supported.
Array silu(Operand x);
/// The same as `silu`.
Array swish(Operand x);
/// x * tanh(softplus(x)).
Array mish(Operand x);
/// Exponential linear unit: x where x > 0, else alpha * (exp(x) - 1).
Array elu(Operand x, Operand alpha = 1.0f);
/// Continuously differentiable exponential linear unit: x where x > 0, else
/// alpha * (exp(x / alpha) - 1).
Array celu(Operand x, Operand alpha = 1.0f);
/// Scaled exponential linear unit: 1.0507.. * elu(x, 1.6732..), which keeps mean 0 and variance 1.
Array selu(Operand x);
/// Leaky rectified linear unit: x where x >= 0, else slope * x.
Array leaky_relu(Operand x, Operand slope = 0.01f);
/// log(1 + exp(x)) without intermediate overflow.
Array softplus(Operand x);
/// 0 where x <= -1, x where x >= 1, else (x + 1)^2 / 4.
Array sparse_plus(Operand x);
/// (x + sqrt(x^2 + b)) / 2.
Array squareplus(Operand x, Operand b = 4);
/// x / (|x| + 1)
Array soft_sign(Operand x);
/// x limited to [-1, 1]; keeps x's dtype.
Array hard_tanh(Operand x);
/// relu6(x + 3) / 6
Array hard_sigmoid(Operand x);
/// x * hard_sigmoid(x)
Array hard_silu(Operand x);
/// The same as `hard_silu`.
Array hard_swish(Operand x);
/// 0 where x <= -1, 1 where x >= 1, else (x + 1) / 2: the derivative of `sparse_plus`.
Array sparse_sigmoid(Operand x);
/// log(1 - exp(-x)) for x >= 0, accurate near 0 and for large x; NaN for x < 0.
Array log1mexp(Operand x);
/// log(sigmoid(x)) without intermediate overflow.
Array log_sigmoid(Operand x);
/// Gated linear unit: x [.., 2N, ..] -> [.., N, ..], the first half along the axis times the
/// sigmoid of the second half. Complex numbers are supported.
/// @throws ShapeError if the size along the axis is odd.
Array glu(Operand x, std::int64_t axis = -1);
/// exp(x) / sum(exp(x)) along `axes` (by default the last), without intermediate overflow.
/// @param x  The array.
/// @param axes  The axes along which results add up to 1.
/// @param where  Elements that take part, an array that broadcasts to x; the others give 0.
/// @throws ShapeError if `where` doesn't broadcast to x's shape.
Array softmax(Operand x, Axes axes = -1, const std::optional<Array>& where = {});
/// log(softmax(x)) without intermediate overflow; elements that don't take part give -infinity.
Array log_softmax(Operand x, Axes axes = -1, const std::optional<Array>& where = {});
/// log(mean(exp(x))) along `axes`, by default all of them, without intermediate overflow. Elements
/// where `where` is 0 aren't counted.
Array logmeanexp(Operand x, Axes axes = {}, bool keepdims = false,
                 const std::optional<Array>& where = {});

/// How `standardize` computes a variance.
enum class VarianceAlgorithm : std::uint8_t {
  fast,    ///< mean(x^2) - mean(x)^2, or 0 where that is negative: less accurate for a large mean
  stable,  ///< mean((x - mean(x))^2)
};
/// Options of `standardize`.
struct StandardizeOptions {
  /// Mean and variance, which broadcast to x; those of x by default.
  std::optional<Array> mean{}, variance{};
  /// Added to the variance.
  double epsilon = 1e-5;
  /// Elements that mean and variance are taken of; all by default.
  std::optional<Array> where{};
  /// See VarianceAlgorithm.
  VarianceAlgorithm algorithm = VarianceAlgorithm::fast;
};
/// (x - mean) / sqrt(variance + epsilon) along `axes`, by default the last (jax.nn.standardize).
Array standardize(Operand x, Axes axes = -1, const StandardizeOptions& options = {});

/// One-hot encoding: x [I..] -> [I.., num_classes], 1 where the index along the new axis equals x,
/// else 0. Values of x outside [0, num_classes) give zeros.
/// @param x  Class numbers.
/// @param num_classes  Size of the new axis.
/// @param dtype  Dtype of the result.
/// @param axis  Position of the new axis in the result.
/// @throws ValueError if `num_classes` is negative or `axis` out of range.
Array one_hot(Operand x, std::int64_t num_classes, DType dtype = DType::f32,
              std::int64_t axis = -1);

}  // namespace tessera
