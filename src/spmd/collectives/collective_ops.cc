// SPDX-License-Identifier: Apache-2.0
// What the passes over collectives ask of instructions, and collectives made like others.
#include "src/spmd/collectives/collective_ops.h"

#include <algorithm>
#include <utility>

#include "src/ir/analysis/equivalence.h"

namespace tessera::spmd {

using ir::Instruction;
using ir::Opcode;

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

bool communicates(const ir::Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& i) { return ir::is_collective(i->opcode); });
}

bool only_moves(const Instruction& i) {
  return ir::has_trait(i.opcode, ir::traits::permutes) && i.shape.is_array() &&
         i.shape.dtype == i.operand(0)->shape.dtype;
}

}  // namespace tessera::spmd
