// SPDX-License-Identifier: Apache-2.0
// The kernel of sort.
#pragma once

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Stable sorts along one dim; units are the rows. Empty if the comparator has no block functions.
KernelDescriptor sort_kernel(const ir::Instruction& sort);
KernelFamily sort_family();

}  // namespace tessera::codegen
