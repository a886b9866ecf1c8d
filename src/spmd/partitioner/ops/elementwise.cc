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

void partition_elementwise(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple || source.operands().empty()) {
    return partition_by_rule(p, source);
  }
  if (adds_partial_sums(p, source)) {
    Value *a = p.values.computed(*source.operand(0)), *b = p.values.computed(*source.operand(1));
    ir::Instruction* x = p.emit.local_op(source, {a->local, b->local}, a->local->shape);
    return p.values.define(source, p.values.make(x, a->sharding, source.shape));
  }
  const TensorSharding& requested = p.source.sharding(source);
  bool agree = requested.unreduced.empty();
  for (const ir::Instruction* o : source.operands()) {
    Value* v = p.values.operand(*o);
    agree &= o->shape.rank() == 0 ? is_fully_replicated(v->sharding)
                                  : v->is_recomputable() || same_layout(v->sharding, requested);
  }
  ComputeLayout best;
  const TensorSharding* result = &requested;
  if (!agree) {
    std::optional<FactorRule> rule = rule_for(source);
    if (!rule) return replicate(p, source, "no rule is known");
    best = p.layouts.choose(source, *rule);
    result = &best.results.front();
  }
  std::vector<ir::Instruction*> operands;
  operands.reserve(source.operands().size());
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const bool scalar = source.operand(i)->shape.rank() == 0;
    Value* v = !agree   ? p.values.operand_in(source, i, best.operands[i])
               : scalar ? p.values.operand_in(source, i, p.source.replicated(0))
                        : p.values.operand_in(source, i, requested);
    operands.push_back(v->local);
  }
  ir::Instruction* x =
      p.emit.local_op(source, std::move(operands), local_shape(source.shape, *result));
  p.values.define(source, p.values.make(x, *result, source.shape));
}

void partition_broadcast(PartitionContext& p, const ir::Instruction& source) {
  // The operand is the smaller one: it goes wherever the result is requested.
  const TensorSharding requested = reduced(p.source.sharding(source));
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  TensorSharding s = p.source.replicated(source.operand(0)->shape.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    s.dims[i].axes = requested.dims[std::size_t(dims[i])].axes;
  }
  Value* v = p.values.operand_in(source, 0, s);
  if (source.operand(0)->shape.rank() == 0) {
    ir::Instruction* scalar = v->local;
    const Dims global = source.shape.dims;
    return p.values.define(source, p.values.make_recomputable(
                                       [&p, scalar, global](const TensorSharding& to) {
                                         return p.b().splat(scalar, to.shard_dims(global));
                                       },
                                       requested, source.shape));
  }
  ir::Instruction* x = p.emit.local_op(source, {v->local}, local_shape(source.shape, requested));
  p.values.define(source, p.values.make(x, requested, source.shape));
}

void partition_transpose(PartitionContext& p, const ir::Instruction& source) {
  const Dims& perm = source.get<ir::DimensionsAttrs>().dims;
  Value* v = p.values.operand(*source.operand(0));
  if (v->is_recomputable()) {
    TensorSharding s = p.source.replicated(source.shape.rank());
    const TensorSharding requested = reduced(p.source.sharding(source));
    for (std::size_t i = 0; i < perm.size(); ++i) {
      s.dims[std::size_t(perm[i])] = requested.dims[i];
    }
    v = p.values.reshard(v, s, operand_reason(source, 0));
  }
  TensorSharding s = v->sharding;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    s.dims[i] = v->sharding.dims[std::size_t(perm[i])];
  }
  ir::Instruction* x = p.emit.local_op(source, {v->local}, local_shape(source.shape, s));
  Value* made = p.values.make(x, s, source.shape);
  made->partial_op = v->partial_op;
  p.values.define(source, made);
}

/// Devices exchange what is in their own memory: before it leaves for the host, or after it has
/// come from there.
void partition_placement(PartitionContext& p, const ir::Instruction& source) {
  const bool leaves = is_host(source.get<ir::DevicePlacementAttrs>().memory);
  Value* v = p.values.operand(*source.operand(0));
  if (leaves || v->is_recomputable()) {
    v = p.values.reshard(v, reduced(p.source.sharding(source)), operand_reason(source, 0));
  }
  ir::Instruction* x = p.emit.local_op(source, {v->local}, local_shape(source.shape, v->sharding));
  Value* made = p.values.make(x, v->sharding, source.shape);
  made->partial_op = v->partial_op;
  p.values.define(source, made);
}

void partition_constraint(PartitionContext& p, const ir::Instruction& source) {
  Value* v = p.values.operand(*source.operand(0));
  p.values.define(source, p.values.reshard(v, p.source.sharding(source), "sharding constraint"));
}

}  // namespace tessera::spmd
