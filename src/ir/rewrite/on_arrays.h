// SPDX-License-Identifier: Apache-2.0
// Scalar computations, as reducers, comparators and maps call them, on whole arrays.
#pragma once

#include <span>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

/// The first op of a computation on scalars that has no form on arrays; null if all have one: they
/// are elementwise, or calls of such computations.
const Instruction* not_on_arrays(const Computation& scalar);

/// What the computation gives for each element of these arrays of equal dims: one array for each
/// result. Only if all of it works on arrays.
///
///     (a, b) -> add(a, b)    on x: f32[8], y: f32[8]    =>    add(x, y)
std::vector<Instruction*> on_arrays(Builder& b, const Computation& scalar,
                                    std::span<Instruction* const> arrays);

}  // namespace tessera::ir
