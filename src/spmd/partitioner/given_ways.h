// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/spmd/factor_rule.h"

namespace tessera::spmd {

/// Among how many devices an op's work is shared out if nothing were moved to share it out further:
/// a dim of the result is split as the result is, or else as the operand is that it comes from; a
/// contracted one where both operands are. 1 without a mesh.
double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results);

}  // namespace tessera::spmd
