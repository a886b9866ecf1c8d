// SPDX-License-Identifier: Apache-2.0
// Random bits by counters.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// The kernel of rng-bit-generator, with the state's successor if that is a result. None for
/// unknown algorithms and states, which the evaluator refuses.
KernelDescriptor random_bits_kernel(const ir::Instruction& generator);

}  // namespace tessera::codegen
