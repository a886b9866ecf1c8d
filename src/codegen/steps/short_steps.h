// SPDX-License-Identifier: Apache-2.0
// Joins short steps of loops, so that a trip isn't mostly dispatch.
#pragma once

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Steps in bodies and conditions of loops that take less than a few microseconds become one step,
/// as far as what is between them allows: what only they read is in scratch memory. Before memory
/// is planned.
void join_short_steps(runtime::Plan* plan, KernelTable* kernels);

}  // namespace tessera::codegen
