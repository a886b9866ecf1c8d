// SPDX-License-Identifier: Apache-2.0
// The types of what loops carry and of what branches return.
#pragma once

#include <string>
#include <vector>

#include "src/frontend/control_flow/branch_names.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::internal {

Array as_dtype(const Array& x, DType dtype, Location location);

/// Checks that the carry keeps its types. Plain numbers in the initial value adopt the dtypes that
/// the body returns, and what states no sharding the one that follows it: returns true if there
/// were some, so that the body must be traced again. Each does so once.
bool settle_carry(std::vector<Array>& carry, const std::vector<frontend::AbstractValue>& results,
                  const std::vector<std::string>& paths, const std::string& name,
                  Location location);
/// What a loop returns is weakly typed if it is so before and after the body.
void keep_weak(std::vector<frontend::AbstractValue>* carry,
               const std::vector<frontend::AbstractValue>& results);

/// Types that the results of all branches can have: weakly typed results adopt the dtype of a
/// branch whose result isn't weak. TypeError if there are none.
std::vector<frontend::AbstractValue> joined_results(
    const std::vector<frontend::TracedFunction>& branches, const BranchNames& names);

}  // namespace tessera::internal
