// SPDX-License-Identifier: Apache-2.0
// Scatters that make their updates row by row.
#pragma once

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Joins a loop whose large result nothing but a scatter of rows reads, as its updates, with that
/// scatter: each worker makes the rows that it applies. Of a gradient of rows of a table,
///
///   g = gather(table, i) * 2   out = scatter(zeros, i, g)
///
/// g is never held. Before memory is planned.
void join_made_updates(runtime::Plan* plan, KernelTable* kernels);

}  // namespace tessera::codegen
