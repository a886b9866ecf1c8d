// SPDX-License-Identifier: Apache-2.0
// Into how many parts the given shardings divide a contraction.
#pragma once

#include <vector>

#include "src/spmd/factor_rule.h"

namespace tessera::spmd {

/// Among how many devices a contraction is shared out by a partitioner that takes the shardings as
/// they are (XLA's): `ways_of_given_dot` where that can tell, else among the axes of the result.
/// What an operand is split in beyond it is gathered. 1 without a mesh.
double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results);

}  // namespace tessera::spmd
