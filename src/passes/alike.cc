// SPDX-License-Identifier: Apache-2.0
#include "src/passes/alike.h"

namespace tessera::passes {

using ir::Opcode;

bool is_pure(const ir::Instruction& i) {
  if (ir::has_side_effect(i.opcode) || !i.control_predecessors.empty()) return false;
  switch (i.opcode) {
    case Opcode::parameter:
    case Opcode::rng:
    case Opcode::opt_barrier:  // keeps what is recomputed on purpose apart
    case Opcode::custom_call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::call:
    case Opcode::after_all:
      return false;
    default:
      return true;
  }
}

bool equal_attributes(const ir::Attributes& a, const ir::Attributes& b) {
  if (const auto* x = a.get_if<ir::CollectiveAttrs>()) {
    const auto* y = b.get_if<ir::CollectiveAttrs>();
    if (y == nullptr) return false;
    return x->groups == y->groups && x->dims == y->dims;
  }
  if (const auto* x = a.get_if<ir::PermuteAttrs>()) {
    const auto* y = b.get_if<ir::PermuteAttrs>();
    return y != nullptr && x->source_target_pairs == y->source_target_pairs;
  }
  return a == b;
}

}  // namespace tessera::passes
