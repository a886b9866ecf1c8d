// SPDX-License-Identifier: Apache-2.0
// Activation functions and other functions of neural networks.
#pragma once

#include <cstdint>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Functions of neural networks, as in jax.nn.
///
/// Activations are elementwise and keep the shape. Except in `relu` and `relu6` integers become
/// f32. Unless stated otherwise they aren't defined for complex numbers.
///
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera {

/// Rectified linear unit, max(x, 0); keeps x's dtype.
Array relu(Operand x);
/// min(max(x, 0), 6); keeps x's dtype.
Array relu6(Operand x);
/// Gaussian error linear unit, x * Phi(x) with the standard normal distribution Phi.
/// @param x  The array.
/// @param approximate  Use the tanh approximation of Phi (as jax.nn.gelu does by default); if false
///   Phi is computed by `erf`.
Array gelu(Operand x, bool approximate = true);
/// Sigmoid linear unit (swish), x * sigmoid(x). Complex numbers are supported.
Array silu(Operand x);
/// Exponential linear unit: x where x > 0, else alpha * (exp(x) - 1).
Array elu(Operand x, Operand alpha = 1.0f);
/// Leaky rectified linear unit: x where x >= 0, else slope * x.
Array leaky_relu(Operand x, Operand slope = 0.01f);
/// log(1 + exp(x)) without intermediate overflow.
Array softplus(Operand x);
/// log(sigmoid(x)) without intermediate overflow.
Array log_sigmoid(Operand x);
/// Gated linear unit: x [.., 2N, ..] -> [.., N, ..], the first half along the axis times the
/// sigmoid of the second half. Complex numbers are supported.
/// @throws ShapeError if the size along the axis is odd.
Array glu(Operand x, std::int64_t axis = -1);
/// exp(x) / sum(exp(x)) along `axes` (by default the last), without intermediate overflow.
Array softmax(Operand x, Axes axes = -1);
/// log(softmax(x)) without intermediate overflow.
Array log_softmax(Operand x, Axes axes = -1);
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
