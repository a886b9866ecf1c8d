// SPDX-License-Identifier: Apache-2.0
// Matrices that are decomposed, or solved with: whatever else is done with them, in the end a
// device has them whole.
#include "src/ir/analysis/device_computations.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

bool needs_whole_operand(const ir::Instruction& op, std::size_t k) {
  const bool decomposes = op.is(ir::Opcode::cholesky) || op.is(ir::Opcode::triangular_solve);
  // A custom call whose rule is known; its own partitioner may want its operands otherwise.
  const bool calls = op.is(ir::Opcode::custom_call) && ir::custom_call_rule(op);
  if (!decomposes && !calls) return false;
  const auto rule = rule_for(op);
  if (!rule || k >= rule->operands.size() || rule->operands[k].empty()) return false;
  for (const IndexList& dim : rule->operands[k]) {
    for (const int f : dim) {
      const Factor& factor = rule->factors[std::size_t(f)];
      if (factor.kind == FactorKind::pass_through && factor.size > 1) return false;
    }
  }
  return true;
}

bool ComputationPartitioner::needs_whole(const ir::Instruction& array, int views) const {
  for (const ir::Instruction* u : users(array)) {
    for (std::size_t k = 0; k < u->operands().size(); ++k) {
      if (u->operands()[k] == &array && needs_whole_operand(*u, k)) return true;
    }
    const bool same =
        u->is(ir::Opcode::transpose) || u->is(ir::Opcode::reshape) || u->is(ir::Opcode::copy);
    if (same && views > 0 && needs_whole(*u, views - 1)) return true;
  }
  return false;
}

bool ComputationPartitioner::needed_whole(const Value* v) const {
  const ir::Instruction* array = v->original->origin;
  if (!array || array->parent != &source_ || !array->shape.is_array() || v->original->recompute ||
      !v->sharding.unreduced.empty() || users(*array).size() < 2) {
    return false;
  }
  constexpr int kViews = 2;
  const auto [it, added] = needed_whole_.try_emplace(array, false);
  if (added) it->second = needs_whole(*array, kViews);
  return it->second;
}

}  // namespace tessera::spmd
