// SPDX-License-Identifier: Apache-2.0
// Random bits by counters.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// The kernel of rng-bit-generator, with the state's successor if that is a result. None for
/// unknown algorithms and states, which the evaluator refuses.
KernelDescriptor random_bits_kernel(const ir::Instruction& generator);
/// The kernel of rng-get-and-update-state: each run of the operation gives the next state of a
/// stream of its own, from run to run of the program, too.
KernelDescriptor random_state_kernel(const ir::Instruction& state);

}  // namespace tessera::codegen
