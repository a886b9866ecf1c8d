// SPDX-License-Identifier: Apache-2.0
// What may leave a loop, by opcode.
#include "src/ir/loop_invariance.h"

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
  if (has_side_effect(i.opcode) || !i.control_predecessors().empty()) return false;
  if (is_collective(i.opcode)) return is_plain_collective(i);
  switch (i.opcode) {
    case Opcode::parameter:
    case Opcode::rng:
    case Opcode::opt_barrier:
    case Opcode::custom_call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::after_all:
    case Opcode::tuple:
      return false;
    default:
      return i.shape.is_array();
  }
}

}  // namespace tessera::ir
