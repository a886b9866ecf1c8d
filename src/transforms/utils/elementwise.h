// SPDX-License-Identifier: Apache-2.0
// Scalar computations, as reducers and maps call them, on whole arrays.
#pragma once

#include <span>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// What the computation gives for each element of these arrays of equal dims: one array for each
/// result. NotImplementedError if it holds anything but elementwise ops.
///
///     (a, b) -> add(a, b)    on x: f32[8], y: f32[8]    =>    add(x, y)
std::vector<ir::Instruction*> apply_to_arrays(ir::Builder& b, const ir::Computation& scalar,
                                              std::span<ir::Instruction* const> arrays);

/// What reduces several arrays at once, along their leading dim [n, ...], to [...]: a tree of calls
/// of the reducer, whose ops have derivatives. `init` are scalars.
std::vector<ir::Instruction*> reduce_by_halves(ir::Builder& b, const ir::Computation& reducer,
                                               std::vector<ir::Instruction*> arrays,
                                               std::span<ir::Instruction* const> init);

}  // namespace tessera::transforms
