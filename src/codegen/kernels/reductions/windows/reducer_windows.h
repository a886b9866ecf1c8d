// SPDX-License-Identifier: Apache-2.0
// Reduce-window by any function of any number of arrays.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Whether there is a kernel: the reducer has a loop, and windows aren't reversed or empty.
bool has_reducer_window_kernel(const ir::Instruction& reduce_window);
/// Inputs: the arrays, then the initial values. The reducer is taken to be associative, as XLA
/// does. Windows that take in all that comes before (or after) along one dim are running
/// reductions, done in one pass, long ones in stretches side by side. Only if there is a
/// kernel.
KernelDescriptor reducer_window_kernel(const ir::Instruction& reduce_window);

}  // namespace tessera::codegen
