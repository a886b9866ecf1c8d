// SPDX-License-Identifier: Apache-2.0
// What may leave a loop, by opcode.
#include "src/ir/analysis/loop_invariance.h"

#include "src/ir/analysis/equivalence.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::ir {
namespace {

/// A carry that the body hands on unchanged.
bool is_invariant_carry(const Computation& body, std::size_t carry) {
  const Instruction& root = *body.root();
  return root.is(Opcode::tuple) && WhileView::carry_of(*root.operand(carry)) == carry;
}

}  // namespace

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
  if (runs_program(i.opcode) || !i.shape.is_array() || !is_pure(i)) return false;
  return !is_collective(i.opcode) || is_plain_collective(i);
}

std::vector<char> loop_invariant_values(const Computation& body) {
  std::vector<char> invariant(body.instructions().size(), 0);
  for (const auto& i : body.instructions()) {
    if (!i->shape.is_array()) continue;
    const auto carry = WhileView::carry_of(*i);
    bool same = carry ? is_invariant_carry(body, *carry) : may_stand_outside(*i);
    for (const Instruction* o : i->operands()) {
      same = same && (carry || invariant[std::size_t(o->index)] != 0);
    }
    invariant[std::size_t(i->index)] = same;
  }
  return invariant;
}

}  // namespace tessera::ir
