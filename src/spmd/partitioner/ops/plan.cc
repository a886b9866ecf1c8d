// SPDX-License-Identifier: Apache-2.0
// The first stage of the partitioner: each op is put into the program with explicit reshards, in
// the layout that its family plans.
#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

OpPlan planned(const ComputeLayout& layout) { return {layout.operands, layout.results}; }

OpPlan plan_as_declared(PartitionContext& p, const ir::Instruction& source) {
  OpPlan plan{{}, p.source.shardings(source)};
  for (const ir::Instruction* o : source.operands()) {
    plan.operands.push_back(o->shape.is_array() ? p.values.operand(*o)->sharding
                                                : TensorSharding());
  }
  return plan;
}

OpPlan plan_at_boundary(PartitionContext& p, const ir::Instruction& source) {
  OpPlan plan{{}, p.source.shardings(source)};
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

std::vector<Value*> place_on(PartitionContext& p, const ir::Instruction& source,
                             std::vector<ir::Instruction*> operands, const OpPlan& plan) {
  ir::Instruction* x = p.emit.local_op(source, std::move(operands), source.shape);
  x->frontend_attributes = source.frontend_attributes;  // its rule, if that is stated
  p.values.define(source, x, plan.results);
  const std::vector<Value*>& leaves = p.values.computed_leaves(source);
  for (std::size_t i = 0; i < plan.partial_ops.size(); ++i) {
    leaves[i]->partial_op = plan.partial_ops[i];
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

namespace {

using ir::Opcode;

using PlaceOp = void (*)(PartitionContext&, const ir::Instruction&);
using Planner = OpPlan (*)(PartitionContext&, const ir::Instruction&);

template <Planner plan>
void by_plan(PartitionContext& p, const ir::Instruction& source) {
  place(p, source, plan(p, source));
}

/// Of a family of its own; null for others.
PlaceOp placer_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::constant:
      return place_constant;
    case Opcode::iota:
      return place_iota;
    case Opcode::broadcast:
      return place_broadcast;
    case Opcode::transpose:
      return by_plan<plan_transpose>;
    case Opcode::reshape:
      return by_plan<plan_reshape>;
    case Opcode::dot:
      return by_plan<plan_dot>;
    case Opcode::convolution:
      return by_plan<plan_convolution>;
    case Opcode::reduce_window:
      return by_plan<plan_reduce_window>;
    case Opcode::select_and_scatter:
      return place_select_and_scatter;
    case Opcode::reduce:
      return by_plan<plan_reduce>;
    case Opcode::slice:
      return place_slice;
    case Opcode::pad:
      return by_plan<plan_pad>;
    case Opcode::reverse:
      return by_plan<plan_reverse>;
    case Opcode::concatenate:
      return place_concatenate;
    case Opcode::dynamic_slice:
      return by_plan<plan_dynamic_slice>;
    case Opcode::dynamic_update_slice:
      return by_plan<plan_dynamic_update_slice>;
    case Opcode::gather:
      return by_plan<plan_gather>;
    case Opcode::scatter:
      return by_plan<plan_scatter>;
    case Opcode::device_placement:
      return by_plan<plan_placement>;
    case Opcode::custom_partitioning:
      return by_plan<plan_at_boundary>;
    case Opcode::topk:
      return by_plan<plan_top_k>;
    case Opcode::sort:
      return by_plan<plan_sort>;
    case Opcode::fft:
      return by_plan<plan_fft>;
    case Opcode::rng:
    case Opcode::rng_bit_generator:
      return by_plan<plan_from_replicated>;
    case Opcode::partition_id:
      return by_plan<plan_replicated>;
    case Opcode::custom_call:
      return by_plan<plan_by_rule>;
    case Opcode::manual_computation:
      return place_manual;
    // These say where arrays go, in both stages.
    case Opcode::tuple:
      return partition_tuple;
    case Opcode::get_tuple_element:
      return partition_get_tuple_element;
    case Opcode::call:
      return partition_call;
    case Opcode::while_:
      return partition_while;
    case Opcode::conditional:
      return partition_conditional;
    case Opcode::opt_barrier:
      return partition_barrier;
    case Opcode::sharding_constraint:
      return partition_constraint;
    case Opcode::propagation_barrier:
    case Opcode::pvary:
      return partition_marker;
    default:
      return nullptr;
  }
}

}  // namespace

void plan_instruction(PartitionContext& p, const ir::Instruction& source) {
  if (const PlaceOp placer = placer_of(source.opcode)) return placer(p, source);
  if (ir::is_collective(source.opcode)) return place_collective(p, source);
  // The device stage says what is wrong with it.
  if (ir::has_side_effect(source.opcode)) return by_plan<plan_at_boundary>(p, source);
  if (ir::is_elementwise(source.opcode) || source.is(Opcode::bitcast_convert)) {
    const bool same_dims =
        !source.is(Opcode::bitcast_convert) || source.shape.dims == source.operand(0)->shape.dims;
    return same_dims ? by_plan<plan_elementwise>(p, source) : by_plan<plan_by_rule>(p, source);
  }
  by_plan<plan_by_rule>(p, source);
}

}  // namespace tessera::spmd
