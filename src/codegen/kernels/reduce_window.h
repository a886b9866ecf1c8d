// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/codegen/kernel_spec.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, initial value. Windows that take in all that comes before (or after) along one
/// dim are running reductions, done in one pass. Empty unless one array is combined by one op.
KernelSpec reduce_window_kernel(const ir::Instruction& reduce_window);

}  // namespace tessera::codegen
