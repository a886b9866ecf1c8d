// SPDX-License-Identifier: Apache-2.0
// What the passes over collectives ask of instructions, and collectives made like others.
#include "src/spmd/collectives/collective_ops.h"

#include <utility>

#include "src/ir/equivalence.h"

namespace tessera::spmd {

using ir::Instruction;
using ir::Opcode;

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

Instruction* same_collective(ir::Builder& b, const Instruction& like,
                             std::vector<Instruction*> operands, const Shape& shape) {
  return ir::emit_like(b, like, std::move(operands), &shape);
}

Instruction* flat_gather(ir::Builder& b, const Instruction& like,
                         std::vector<Instruction*> operands, const Shape& shape) {
  ir::CollectiveAttrs attrs = like.get<ir::CollectiveAttrs>();
  attrs.dims = {0};
  return ir::emit_like(b, like, std::move(operands), std::move(attrs), &shape);
}

Instruction* regrouped(ir::Builder& b, const Instruction& like, Instruction* operand,
                       ir::DeviceGroups groups) {
  ir::CollectiveAttrs attrs = like.get<ir::CollectiveAttrs>();
  attrs.groups = std::move(groups);
  return ir::emit_like(b, like, {operand}, std::move(attrs));
}

bool only_moves(const Instruction& i) {
  return ir::has_trait(i.opcode, ir::traits::permutes) && i.shape.is_array() &&
         i.shape.dtype == i.operand(0)->shape.dtype;
}

bool may_stand_outside(const Instruction& i) {
  if (ir::runs_program(i.opcode) || !i.shape.is_array() || !ir::is_pure(i)) return false;
  return !ir::is_collective(i.opcode) || is_plain_collective(i);
}

}  // namespace tessera::spmd
