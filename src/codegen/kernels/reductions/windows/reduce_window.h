// SPDX-License-Identifier: Apache-2.0
// The kernel of reduce-window.
#pragma once

#include <memory>

#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, initial value. Windows that take in all that comes before (or after) along one
/// dim are running reductions, done in one pass. Empty if neither one op combines one array, nor
/// the reducer is a loop that runs over lanes.
KernelDescriptor reduce_window_kernel(const ir::Instruction& reduce_window);
/// The same of an array that a program makes of the first inputs, as often as windows take in a row
/// of it. Only if reduce_window_takes_programs.
KernelDescriptor reduce_window_kernel(const ir::Instruction& reduce_window,
                                      std::shared_ptr<const LoopExpr> program, int inputs);
bool reduce_window_takes_programs(const ir::Instruction& reduce_window);

}  // namespace tessera::codegen
