// SPDX-License-Identifier: Apache-2.0
// Time tiling of a finished plan: steps of a stencil in a row become one, which makes a block of
// rows of all of them while it is in cache.
// Also called: temporal blocking, overlapped tiling.
#pragma once

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Joins loops that read rows around their own of large arrays which loops before them made, and
/// nothing else reads. Before memory is planned.
void join_stencil_chains(runtime::Plan* plan, KernelTable* kernels);

}  // namespace tessera::codegen
