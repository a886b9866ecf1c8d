// SPDX-License-Identifier: Apache-2.0
// The kernel of scatter.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array (its bytes are in the output already), indices, updates. Units are ranges of the
/// result's rows. Empty for several arrays or a combiner without block functions.
KernelDescriptor scatter_kernel(const ir::Instruction& scatter);

}  // namespace tessera::codegen
