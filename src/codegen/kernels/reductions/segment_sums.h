// SPDX-License-Identifier: Apache-2.0
// Segment sums: of rows' elements by index, as gradients of tables from which biases of attention
// are taken.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// A scatter that adds f32 to zeros of [tables..., entries], the updates [tables..., rows...,
/// columns] where indices [rows..., columns] say, the same for all tables. Inputs: updates,
/// indices. It has row_sums, so that the updates needn't be held. Empty for other scatters.
KernelDescriptor segment_sums_kernel(const ir::Instruction& scatter);

}  // namespace tessera::codegen
