// SPDX-License-Identifier: Apache-2.0
// Ops whose result elements depend on the elements at the same place, and relabellings of dims.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// Partial sums over the same axes can be added before they are completed: one reduction, not two.
bool adds_partial_sums(PartitionContext& p, const ir::Instruction& source) {
  if (!source.is(ir::Opcode::add) && !source.is(ir::Opcode::subtract)) return false;
  if (source.shape.dtype == DType::pred) return false;
  const ir::Instruction &a = *source.operand(0), &b = *source.operand(1);
  if (&a == &b || p.source.user_count(a) != 1 || p.source.user_count(b) != 1) return false;
  Value *va = p.values.computed(a), *vb = p.values.computed(b);
  return !va->sharding.unreduced.empty() && same_layout(va->sharding, vb->sharding) &&
         va->partial_op == ir::Opcode::add && vb->partial_op == ir::Opcode::add;
}

}  // namespace

OpPlan plan_elementwise(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple || source.operands().empty()) return plan_by_rule(p, source);
  if (adds_partial_sums(p, source)) {
    const TensorSharding& s = p.values.computed(*source.operand(0))->sharding;
    return {{s, s}, {s}};
  }
  const TensorSharding& requested = p.source.sharding(source);
  bool agree = requested.unreduced.empty();
  OpPlan plan{{}, {requested}};
  for (const ir::Instruction* o : source.operands()) {
    Value* v = p.values.operand(*o);
    const bool scalar = o->shape.rank() == 0;
    agree &= scalar ? is_fully_replicated(v->sharding)
                    : v->is_recomputable() || same_layout(v->sharding, requested);
    plan.operands.push_back(scalar ? p.source.replicated(0) : requested);
  }
  if (agree) return plan;
  const std::optional<FactorRule> rule = rule_for(source);
  return rule ? planned(p.layouts.choose(source, *rule)) : plan_replicated(p, source);
}

/// The op on shards that are laid out as the result is, or as the dims of the operand come to lie.
void partition_elementwise(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple || source.operands().empty()) return partition_by_rule(p, source);
  std::vector<ir::Instruction*> operands;
  operands.reserve(source.operands().size());
  for (const ir::Instruction* o : source.operands()) {
    operands.push_back(p.values.declared(*o)->local);
  }
  const TensorSharding& result = p.source.sharding(source);
  ir::Instruction* x =
      p.emit.local_op(source, std::move(operands), local_shape(source.shape, result));
  Value* made = p.values.make(x, result, source.shape);
  if (!result.unreduced.empty()) {
    made->partial_op = p.values.declared(*source.operand(0))->partial_op;
  }
  p.values.define(source, made);
}

void place_broadcast(PartitionContext& p, const ir::Instruction& source) {
  // The operand is the smaller one: it goes wherever the result is requested.
  const TensorSharding requested = reduced(p.source.sharding(source));
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  TensorSharding s = p.source.replicated(source.operand(0)->shape.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    s.dims[i].axes = requested.dims[std::size_t(dims[i])].axes;
  }
  if (source.operand(0)->shape.rank() > 0) return place(p, source, {{s}, {requested}});
  ir::Instruction* scalar = p.values.operand_in(source, 0, s)->local;
  p.values.define(source, p.values.make_recomputable(
                              [&p, &source, scalar](const TensorSharding&) {
                                const ShardBuilder::OpScope scope(p.emit, source);
                                return p.emit.local_op(source, {scalar}, source.shape);
                              },
                              requested, source.shape));
}

void partition_broadcast(PartitionContext& p, const ir::Instruction& source) {
  if (source.operand(0)->shape.rank() > 0) return partition_elementwise(p, source);
  const TensorSharding& layout = p.source.sharding(source);
  ir::Instruction* scalar = p.values.declared(*source.operand(0))->local;
  p.values.define(source, p.b().splat(scalar, layout.shard_dims(source.shape.dims)), {layout});
}

OpPlan plan_transpose(PartitionContext& p, const ir::Instruction& source) {
  const Dims& perm = source.get<ir::DimensionsAttrs>().dims;
  const Value* v = p.values.operand(*source.operand(0));
  TensorSharding from = v->sharding, to = v->sharding;
  if (v->is_recomputable()) {
    from = p.source.replicated(source.shape.rank());
    to = reduced(p.source.sharding(source));
    for (std::size_t i = 0; i < perm.size(); ++i) from.dims[std::size_t(perm[i])] = to.dims[i];
  }
  for (std::size_t i = 0; i < perm.size(); ++i) to.dims[i] = from.dims[std::size_t(perm[i])];
  return {{from}, {to}, {v->partial_op}};
}

OpPlan plan_placement(PartitionContext& p, const ir::Instruction& source) {
  const bool leaves = is_host(source.get<ir::DevicePlacementAttrs>().memory);
  const Value* v = p.values.operand(*source.operand(0));
  // Devices exchange what is in their own memory: before it leaves for the host, or after it has
  // come from there.
  const bool moves = leaves || v->is_recomputable();
  const TensorSharding s = moves ? reduced(p.source.sharding(source)) : v->sharding;
  return {{s}, {s}, {v->partial_op}};
}

void partition_constraint(PartitionContext& p, const ir::Instruction& source) {
  Value* v = p.values.operand(*source.operand(0));
  const std::string& reason = source.get<ir::ShardingConstraintAttrs>().reason;
  p.values.define(source, p.values.reshard(v, p.source.sharding(source),
                                           reason.empty() ? "sharding constraint" : reason));
}

}  // namespace tessera::spmd
