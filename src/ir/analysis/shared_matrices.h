// SPDX-License-Identifier: Apache-2.0
// Operands of dots that are one matrix for all of the batch.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::ir {

/// Whether operand `k` of a dot of floats or complex numbers is a broadcast of one matrix to its
/// whole batch, of which kernels read the matrix where it stands.
bool is_shared_matrix(const Instruction& dot, std::size_t k);
/// Whether a broadcast is nothing but such an operand, so that it needn't be in memory.
bool only_shows_matrix(const Instruction& broadcast);

}  // namespace tessera::ir
