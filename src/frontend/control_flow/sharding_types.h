// SPDX-License-Identifier: Apache-2.0
// Explicit mode in loops and branches: values keep the shardings in their types.
#pragma once

#include <string>
#include <vector>

#include "src/frontend/control_flow/branch_names.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::internal {

/// ShardingTypeError if the body returns a carried value with another sharding in its type.
void check_carry_shardings(const std::vector<Array>& carry,
                           const std::vector<frontend::AbstractValue>& results,
                           const std::vector<std::string>& paths, const std::string& name,
                           Location location);
/// Of one slice along the first dim of what a scan runs over. ShardingTypeError if that is split.
frontend::ShardingType slice_sharding(const Array& xs, const std::string& name, Location location);
/// Of the slices stacked along a new first dim.
frontend::ShardingType stacked_sharding(const frontend::ShardingType& slice);
/// ShardingTypeError if branches return values with different shardings in their types.
void check_branch_shardings(const std::vector<frontend::TracedFunction>& branches,
                            const BranchNames& names);
/// That of the first branch that has one for this result.
frontend::ShardingType joined_sharding(const std::vector<frontend::TracedFunction>& branches,
                                       std::size_t result);

}  // namespace tessera::internal
