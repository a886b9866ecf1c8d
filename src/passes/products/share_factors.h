// SPDX-License-Identifier: Apache-2.0
// Dots of a batch by one matrix that all of it shares, and back.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Where an operand of a dot is a broadcast along a batch dim, this becomes a free dim of the other
/// operand: one product of many rows in place of many products of a few. It stays where an array
/// would have to be moved for that, as kernels read the matrix where it stands
/// (ir/analysis/shared_matrices.h). Returns how many dots.
std::size_t share_factors(ir::Module* module);
/// The other way round: where contracted dims of an operand of floats have free dims in front of
/// them and behind, those in front become a batch, to which the other operand is broadcast, so that
/// none is moved. Returns how many dots.
std::size_t batch_outer_dims(ir::Module* module);

}  // namespace tessera::passes
