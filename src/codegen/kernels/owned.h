// SPDX-License-Identifier: Apache-2.0
// Copies of instructions that a plan keeps: its kernels read them after the module is gone.
#pragma once

#include <memory>
#include <string>

#include "src/ir/module.h"

namespace tessera::codegen {

/// A copy in a module of its own, which the pointer keeps, with all that it calls. Its operands are
/// parameters of their shapes.
std::shared_ptr<const ir::Instruction> owned_copy(const ir::Instruction& instruction);
std::shared_ptr<const ir::Computation> owned_copy(const ir::Computation& computation);
/// For keys of kernels: equal programs, equal text.
std::string canonical_text(const ir::Computation& owned);

}  // namespace tessera::codegen
