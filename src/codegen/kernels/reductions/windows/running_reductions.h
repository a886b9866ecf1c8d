// SPDX-License-Identifier: Apache-2.0
// Windows that take in all that comes before each place: a step from element to element.
#pragma once

#include <optional>

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Of a reduce-window by that op; empty if its windows aren't of that kind, along one dim, forward
/// or backward.
std::optional<KernelDescriptor> running_reduction(const ir::Instruction& in, ir::Opcode op);

}  // namespace tessera::codegen
