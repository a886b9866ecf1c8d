// SPDX-License-Identifier: Apache-2.0
// Which instructions compute the same.
#pragma once

#include "src/ir/module.h"

namespace tessera::passes {

/// Gives the same whenever its operands are the same, and nothing would miss a second one.
bool is_pure(const ir::Instruction& instruction);
/// Of two instructions of one opcode. Channels only name a collective.
bool equal_attributes(const ir::Attributes& a, const ir::Attributes& b);
/// The same would come of the same operands: what they call is equal, too.
bool equal_but_for_operands(const ir::Instruction& a, const ir::Instruction& b);
/// Instruction by instruction, in their order.
bool equal_computations(const ir::Computation& a, const ir::Computation& b);

}  // namespace tessera::passes
