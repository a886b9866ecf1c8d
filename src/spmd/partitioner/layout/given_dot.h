// SPDX-License-Identifier: Apache-2.0
// The degree of parallelism of a dot under its given shardings.
#pragma once

#include <optional>
#include <vector>

#include "src/spmd/factor_rule.h"

namespace tessera::spmd {

/// How many ways a contraction of two operands is shared out by a partitioner that takes its
/// shardings as they are, group of devices by group (XLA's dot handler): devices are grouped along
/// dims that two of the three arrays are split in alike, and the dot within a group is treated in
/// the same manner, until an operand has to be gathered. Empty where a dim has several factors, or
/// is split along one that such a partitioner treats otherwise (spatial dims of convolutions).
std::optional<double> ways_of_given_dot(const FactorRule& rule,
                                        const std::vector<const TensorSharding*>& operands,
                                        const std::vector<const TensorSharding*>& results);

}  // namespace tessera::spmd
