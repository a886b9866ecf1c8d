// SPDX-License-Identifier: Apache-2.0
// Layers that are neither convolutions nor normalisation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/products.h>

namespace tessera {

/// x times a matrix, plus a bias: x [.., I], weight [I, O], bias [O] -> [.., O]. Operands are
/// promoted as in `matmul`.
/// @throws ShapeError if sizes don't fit, or weight isn't a matrix.
/// @throws DTypeError as `matmul`.
Array linear(Operand x, Operand weight, const std::optional<Array>& bias = {},
             const MatmulOptions& options = {});

/// Each element of x is 0 with probability `rate`, and x / (1 - rate) otherwise
/// (flax.linen.Dropout; the bits are those of jax.random.bernoulli).
/// @param key  A key of `random`.
/// @param x  The array; integers become f32.
/// @param rate  In [0, 1]. With 0 the result is x, with 1 zeros.
/// @param broadcast_dims  Dimensions along which all elements share one decision.
/// @throws ValueError if the rate is out of range or a dimension doesn't exist.
/// @code
/// Array y = training ? dropout(key, x, 0.1) : x;
/// @endcode
Array dropout(Operand key, Operand x, double rate, std::vector<std::int64_t> broadcast_dims = {});

}  // namespace tessera
