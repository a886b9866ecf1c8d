// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/spmd/factor_rule.h"

namespace tessera::spmd {

/// Among how many devices a contraction is shared out by a partitioner that takes the shardings as
/// they are (XLA's): `ways_of_given_dot` where that can tell; else along the axes of the result,
/// and along those of the summed dims as well where that needs no more than partial sums. What an
/// operand is split in beyond it is gathered. 1 without a mesh. For most dots that is just what XLA
/// makes of them.
double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results);

}  // namespace tessera::spmd
