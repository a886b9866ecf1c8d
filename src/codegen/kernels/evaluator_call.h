// SPDX-License-Identifier: Apache-2.0
// The fallback kernel for ops without a kernel of their own.
#pragma once

#include <memory>

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Runs one instruction on the evaluator: right and slow, for ops that have no kernel. Inputs are
/// the operands' leaves, outputs the result's. The key is left to whoever has the instruction's
/// text.
KernelDescriptor evaluator_kernel(std::shared_ptr<const ir::Instruction> instruction);

}  // namespace tessera::codegen
