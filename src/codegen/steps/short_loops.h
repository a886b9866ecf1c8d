// SPDX-License-Identifier: Apache-2.0
// Makes loops of short steps kernels of their own, so that a trip takes what its arithmetic takes.
// Also called: loop outlining into one kernel, megakernels.
#pragma once

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Loops whose trips take a few microseconds become one step: what they carry stays in place, and
/// what only they read is in scratch memory. Those with exchanges, effects or memory of the host
/// stay loops. Before memory is planned.
///
///     init  i <- 0, x <- x0, y <- y0
///     while (less = compare(i, n))               step(0, x0, y0, n, a) -> y, which holds y0 before
///       s = slice(a, i); x = f(x, s)                (see StepProgram)
///       y = update(y, x, i); i = add(i)
void compile_short_loops(runtime::Plan* plan, KernelTable* kernels);

}  // namespace tessera::codegen
