// SPDX-License-Identifier: Apache-2.0
// Loops in per-device code: the axes over which their values vary.
#pragma once

#include <string>
#include <vector>

#include "src/frontend/control_flow/branch_names.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::internal {

/// In per-device code: TypeError if values that a body returns vary over axes over which the carry
/// doesn't.
void check_carry_varies(const std::vector<Array>& carry,
                        const std::vector<frontend::AbstractValue>& results,
                        const std::vector<std::string>& paths, const std::string& name,
                        Location location);

/// In per-device code: TypeError if the results of branches vary over different axes.
void check_branches_vary(const std::vector<frontend::TracedFunction>& branches,
                         const BranchNames& names);

/// Sets the axes over which a loop's results vary: those of the carry and of `exit`, which decides
/// when a device leaves the loop. Without checks, those of all that the loop reads.
std::vector<frontend::AbstractValue> varying_results(
    std::vector<frontend::AbstractValue> values, frontend::VaryingAxes exit,
    const std::vector<frontend::AbstractValue>& seen, const std::vector<Array>& captures);

}  // namespace tessera::internal
