// SPDX-License-Identifier: Apache-2.0
// What may leave a loop, by opcode.
#include "src/ir/analysis/loop_invariance.h"

#include "src/ir/analysis/equivalence.h"

namespace tessera::ir {

bool is_plain_collective(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::all_gather:
    case Opcode::all_reduce:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_permute:
      break;
    default:
      return false;
  }
  if (i.operands().size() != 1 || !i.shape.is_array() || !i.operand(0)->shape.is_array()) {
    return false;
  }
  return i.control_predecessors().empty();
}

bool may_stand_outside(const Instruction& i) {
  if (runs_program(i.opcode) || !is_pure(i)) return false;
  return !is_collective(i.opcode) || is_plain_collective(i);
}

}  // namespace tessera::ir
