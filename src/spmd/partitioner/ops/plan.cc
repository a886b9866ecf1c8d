// SPDX-License-Identifier: Apache-2.0
// Plans that several families have, and ops put into the program with explicit reshards as they
// were planned.
#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

OpPlan planned(const ComputeLayout& layout) { return {layout.operands, layout.results}; }

OpPlan plan_at_boundary(PartitionContext& p, const ir::Instruction& source) {
  // What propagation declares to be partial values is made of whole ones, by a reshard.
  OpPlan plan{{}, reduced(p.source.shardings(source))};
  for (const ir::Instruction* o : source.operands()) {
    plan.operands.push_back(o->shape.is_array() ? p.source.sharding(*o) : TensorSharding());
  }
  return plan;
}

OpPlan plan_replicated(PartitionContext& p, const ir::Instruction& source) {
  OpPlan plan = plan_at_boundary(p, source);
  for (TensorSharding& s : plan.results) s = p.source.replicated(s.rank());
  return plan;
}

OpPlan plan_from_replicated(PartitionContext& p, const ir::Instruction& source) {
  OpPlan plan = plan_at_boundary(p, source);
  for (TensorSharding& s : plan.operands) s = p.source.replicated(s.rank());
  return plan;
}

const std::vector<Value*>& place_on(PartitionContext& p, const ir::Instruction& source,
                                    std::vector<ir::Instruction*> operands, const OpPlan& plan) {
  ir::Instruction* x = p.emit.local_op(source, std::move(operands), source.shape);
  x->frontend_attributes = source.frontend_attributes;  // its rule, if that is stated
  if (plan.partial_ops.empty()) {
    p.values.define(source, x, plan.results);
    return p.values.computed_leaves(source);
  }
  std::vector<TensorSharding> results = plan.results;
  for (std::size_t i = 0; i < plan.partial_ops.size(); ++i) {
    results[i].reduction = reduction_of(plan.partial_ops[i]);
  }
  p.values.define(source, x, results);
  const std::vector<Value*>& leaves = p.values.computed_leaves(source);
  for (std::size_t i = 0; i < plan.partial_ops.size(); ++i) {
    leaves[i]->set_partial_op(plan.partial_ops[i]);
  }
  return leaves;
}

void place(PartitionContext& p, const ir::Instruction& source, const OpPlan& plan) {
  std::vector<ir::Instruction*> operands;
  operands.reserve(source.operands().size());
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    if (o.shape.is_array()) {
      operands.push_back(p.values.operand_in(source, i, plan.operands[i])->local);
      continue;
    }
    operands.push_back(p.values.pack(o.shape, p.values.declared_leaves(o)));
  }
  place_on(p, source, std::move(operands), plan);
}

}  // namespace tessera::spmd
