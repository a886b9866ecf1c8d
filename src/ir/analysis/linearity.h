// SPDX-License-Identifier: Apache-2.0
// In which operands an instruction is linear.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// What the op table says of the opcode, for the instruction that stands there: of an op that calls
/// a reducer, jointly if that adds, and in no operand otherwise; in none either where the result is
/// of a type whose sums wrap or are rounded to integers. Kind::sums never comes back.
Linearity linearity(const Instruction& instruction);

}  // namespace tessera::ir
