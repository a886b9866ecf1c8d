// SPDX-License-Identifier: Apache-2.0
// Functions of neural networks, as in jax.nn.
#pragma once

#include <cstdint>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

namespace tessera {

/// max(x, 0)
Array relu(Operand x);
/// min(max(x, 0), 6)
Array relu6(Operand x);
/// x times the normal distribution's probability below x; by tanh, or exactly by erf.
Array gelu(Operand x, bool approximate = true);
/// x * sigmoid(x)
Array silu(Operand x);
/// x above 0, alpha * (exp(x) - 1) below.
Array elu(Operand x, Operand alpha = 1.0f);
/// x above 0, slope * x below.
Array leaky_relu(Operand x, Operand slope = 0.01f);
/// log(1 + exp(x)), without overflow.
Array softplus(Operand x);
/// log(sigmoid(x)), without overflow.
Array log_sigmoid(Operand x);
/// First half times sigmoid of the second half, along an axis.
Array glu(Operand x, std::int64_t axis = -1);
/// exp(x) scaled to sum 1 along axes, without overflow.
Array softmax(Operand x, Axes axes = -1);
Array log_softmax(Operand x, Axes axes = -1);
/// 1 at the position that x names along a new axis, 0 elsewhere; all 0 for numbers outside.
Array one_hot(Operand x, std::int64_t num_classes, DType dtype = DType::f32,
              std::int64_t axis = -1);

}  // namespace tessera
