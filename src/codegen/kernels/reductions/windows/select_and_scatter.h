// SPDX-License-Identifier: Apache-2.0
// The kernel of select-and-scatter.
#pragma once

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, source, initial value. Empty unless the selection is a comparison of numbers and
/// the updates are added.
KernelDescriptor select_and_scatter_kernel(const ir::Instruction& select_and_scatter);
KernelFamily select_and_scatter_family();

}  // namespace tessera::codegen
