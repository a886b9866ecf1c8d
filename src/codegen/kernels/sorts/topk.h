// SPDX-License-Identifier: Apache-2.0
// The kernel of top-k.
#pragma once

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// The k greatest (or least) of the last dim with their places; units are the rows. Floats are in
/// their total order, equal ones by place. Empty for complex numbers and floats of a byte.
KernelDescriptor topk_kernel(const ir::Instruction& topk);
KernelFamily topk_family();

}  // namespace tessera::codegen
