// SPDX-License-Identifier: Apache-2.0
// Weights of elements along axes.
#pragma once

#include <string>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera::frontend {

/// Weights that broadcast with x, of weights of x's shape or of the shape of the axes; ShapeError
/// for others.
Located aligned_weights(const std::string& name, const Operand& x, const Axes& axes,
                        const Array& weights);

}  // namespace tessera::frontend
