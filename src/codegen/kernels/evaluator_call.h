// SPDX-License-Identifier: Apache-2.0
// The fallback kernel for ops without a kernel of their own.
#pragma once

#include "src/codegen/kernels/kernel_spec.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Runs one instruction on the evaluator: right and slow, for ops that have no kernel. Inputs are
/// the operands' leaves, outputs the result's. The instruction must outlive the kernel.
KernelSpec evaluator_kernel(const ir::Instruction& instruction);

}  // namespace tessera::codegen
