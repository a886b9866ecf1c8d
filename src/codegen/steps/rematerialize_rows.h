// SPDX-License-Identifier: Apache-2.0
// Rematerialisation of large arrays that chains make row by row, for the steps behind that read
// them.
#pragma once

#include <set>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/codegen/steps/tile_chains.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// What the backward pass of a network reads of its forward pass, a chain may hold in full for that
/// alone: exponentials of attention's scores. Where making them takes little for their size, steps
/// are added in front of the first reader that make them again from what the chain was made from;
/// tile_chains then has them go by rows on both sides. `plan`: as it was before these chains were
/// found. Returns what the new steps make.
std::set<runtime::SlotId> rematerialize_rows(runtime::Plan* plan, const KernelTable& kernels,
                                             const std::vector<JoinedChain>& chains);

}  // namespace tessera::codegen
