// SPDX-License-Identifier: Apache-2.0
// Reduce-window by any function of any number of arrays.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: the arrays, then the initial values. The reducer is taken to be associative, as XLA
/// does. Windows that take in all that comes before (or after) along one dim are running
/// reductions, done in one pass, long ones in stretches side by side. Empty if the reducer has no
/// loop.
KernelDescriptor reducer_window_kernel(const ir::Instruction& reduce_window);

}  // namespace tessera::codegen
