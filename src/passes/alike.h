// SPDX-License-Identifier: Apache-2.0
// Which instructions compute the same.
#pragma once

#include "src/ir/module.h"

namespace tessera::passes {

/// Gives the same whenever its operands are the same, and nothing would miss a second one.
bool is_pure(const ir::Instruction& instruction);
/// The same would come of the same operands: what they call is equal, too, instruction by
/// instruction. Channels only name a collective.
bool equal_but_for_operands(const ir::Instruction& a, const ir::Instruction& b);

}  // namespace tessera::passes
