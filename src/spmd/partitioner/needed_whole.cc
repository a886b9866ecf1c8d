// SPDX-License-Identifier: Apache-2.0
// Matrices that are decomposed, or solved with: whatever else is done with them, in the end each
// device has all of them.
#include "src/ir/analysis/device_computations.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/source_computation.h"

namespace tessera::spmd {

bool requires_replicated_operand(const ir::Instruction& op, std::size_t k) {
  const bool decomposes = op.is(ir::Opcode::cholesky) || op.is(ir::Opcode::triangular_solve);
  // A custom call whose rule is known; its own partitioner may want its operands otherwise.
  const bool calls = op.is(ir::Opcode::custom_call) && !ir::is_manual_computation(op) &&
                     !op.get<ir::CustomCallAttrs>().partitioner && ir::custom_call_rule(op);
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

bool SourceComputation::requires_replication(const ir::Instruction& array, int views) const {
  for (const ir::Instruction* u : users(array)) {
    for (std::size_t k = 0; k < u->operands().size(); ++k) {
      if (u->operands()[k] == &array && requires_replicated_operand(*u, k)) return true;
    }
    const bool same =
        u->is(ir::Opcode::transpose) || u->is(ir::Opcode::reshape) || u->is(ir::Opcode::copy);
    if (same && views > 0 && requires_replication(*u, views - 1)) return true;
  }
  return false;
}

bool SourceComputation::requires_replication(const ir::Instruction& array) const {
  if (users(array).size() < 2) return false;
  constexpr int kViews = 2;
  const auto [it, added] = requires_replication_.try_emplace(&array, false);
  if (added) it->second = requires_replication(array, kViews);
  return it->second;
}

}  // namespace tessera::spmd
