// SPDX-License-Identifier: Apache-2.0
// All families of kernels that are chosen by a table, and the operations that need no more than a
// kernel.
#pragma once

#include <vector>

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// In the order of docs/internals/kernels.md.
std::vector<KernelFamily> kernel_families();

/// Describes the kernel of an instruction that takes its operands, and writes its results, as they
/// stand: one step. Empty if it has none for these types and attributes.
using DescribeKernel = KernelDescriptor (*)(const ir::Instruction&);
/// Null if the op has an emitter of its own, or runs on the evaluator.
DescribeKernel kernel_of(ir::Opcode opcode);

}  // namespace tessera::codegen
