// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/codegen/kernel_spec.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, indices. Units are the index vectors.
KernelSpec gather_kernel(const ir::Instruction& gather);
/// Inputs: array (its bytes are in the output already), indices, updates. Empty for several arrays
/// or a combiner without block functions.
KernelSpec scatter_kernel(const ir::Instruction& scatter);

}  // namespace tessera::codegen
