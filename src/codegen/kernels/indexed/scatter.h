// SPDX-License-Identifier: Apache-2.0
// The kernel of scatter.
#pragma once

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array (its bytes are in the output already), indices, updates. Units are ranges of the
/// result's rows. Empty for several arrays or a combiner without block functions.
KernelDescriptor scatter_kernel(const ir::Instruction& scatter);

struct ScatterPlan {
  KernelDescriptor kernel;
  bool sums_tables = false;  ///< its inputs are the updates and the indices
};
/// The kernel that the table says.
ScatterPlan scatter_plan(const ir::Instruction& scatter);
KernelFamily scatter_family();

}  // namespace tessera::codegen
