// SPDX-License-Identifier: Apache-2.0
// Ops whose result elements depend on the elements at the same place, and relabellings of dims.
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// The kind of partial values that an op joins: sums are added and subtracted, maxima and minima
/// joined by themselves. Empty for other ops.
std::optional<ir::Opcode> joining_op(const ir::Instruction& source) {
  const bool subtracts = source.is(ir::Opcode::subtract);
  const ir::Opcode joined_by = subtracts ? ir::Opcode::add : source.opcode;
  if (reduction_of(joined_by) == Reduction::other) return std::nullopt;
  if (source.shape.dtype == DType::pred) return std::nullopt;
  return joined_by;
}

/// Whether the result is requested as partial values, and made of such: each device joins its own.
/// Of maxima and minima one operand may be whole, as it counts no more for being met several times.
bool joins_as_requested(PartitionContext& p, const ir::Instruction& source) {
  const TensorSharding& requested = p.source.sharding(source);
  const std::optional<ir::Opcode> joined_by = joining_op(source);
  if (!joined_by || requested.unreduced.empty()) return false;
  if (requested.reduction != reduction_of(*joined_by)) return false;
  int partial = 0;
  for (const ir::Instruction* o : source.operands()) {
    const Value& v = *p.values.computed(*o);
    if (v.sharding.unreduced.empty()) {
      if (requested.reduction == Reduction::sum) return false;
      continue;
    }
    if (!same_layout(v.sharding, requested) || v.partial_op != *joined_by) return false;
    ++partial;
  }
  return partial > 0;
}

/// Partial values over the same axes can be joined before they are completed: one reduction, not
/// two.
bool joins_partial_values(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<ir::Opcode> joined_by = joining_op(source);
  if (!joined_by) return false;
  const ir::Instruction &a = *source.operand(0), &b = *source.operand(1);
  if (&a == &b || p.source.user_count(a) != 1 || p.source.user_count(b) != 1) return false;
  Value *va = p.values.computed(a), *vb = p.values.computed(b);
  return !va->sharding.unreduced.empty() && same_layout(va->sharding, vb->sharding) &&
         va->partial_op == *joined_by && vb->partial_op == *joined_by;
}

/// The position of the factor that is a partial sum over the axes over which the product is to be
/// one: each device multiplies its term by the other factor, which it has whole.
std::optional<std::size_t> scaled_partial_sum(PartitionContext& p, const ir::Instruction& source) {
  const TensorSharding& requested = p.source.sharding(source);
  if (!source.is(ir::Opcode::multiply) || source.shape.dtype == DType::pred) return std::nullopt;
  if (requested.unreduced.empty()) return std::nullopt;
  for (std::size_t k = 0; k < 2; ++k) {
    const Value& term = *p.values.computed(*source.operand(k));
    const Value& other = *p.values.computed(*source.operand(1 - k));
    if (term.sharding.unreduced == requested.unreduced && other.sharding.unreduced.empty() &&
        term.partial_op == ir::Opcode::add && requested.reduction == Reduction::sum) {
      return k;
    }
  }
  return std::nullopt;
}

}  // namespace

OpPlan plan_elementwise(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple || source.operands().empty()) return plan_by_rule(p, source);
  if (joins_as_requested(p, source)) {
    const TensorSharding& s = p.source.sharding(source);
    return {{s, s}, {s}};
  }
  if (joins_partial_values(p, source)) {
    const TensorSharding& s = p.values.computed(*source.operand(0))->sharding;
    return {{s, s}, {s}};
  }
  if (const auto term = scaled_partial_sum(p, source)) {
    const TensorSharding& s = p.values.computed(*source.operand(*term))->sharding;
    OpPlan plan{{reduced(s), reduced(s)}, {s}};
    plan.operands[*term] = s;
    return plan;
  }
  const TensorSharding& requested = p.source.sharding(source);
  bool agree = requested.unreduced.empty();
  for (const ir::Instruction* o : source.operands()) {
    Value* v = p.values.operand(*o);
    agree &= o->shape.rank() == 0 ? is_fully_replicated(v->sharding)
                                  : v->is_recomputable() || same_layout(v->sharding, requested);
  }
  if (agree) {
    OpPlan plan;
    plan.results.push_back(requested);
    plan.operands.reserve(source.operands().size());
    for (const ir::Instruction* o : source.operands()) {
      plan.operands.push_back(o->shape.rank() == 0 ? p.source.replicated(0) : requested);
    }
    return plan;
  }
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
  const auto& all = source.operands();
  const auto term = std::find_if(all.begin(), all.end(), [&](const ir::Instruction* o) {
    return !p.values.declared(*o)->sharding.unreduced.empty();
  });
  // A result of a function may be said to be partial values where it is made of whole ones.
  const bool becomes_partial = !result.unreduced.empty() && term == all.end();
  const TensorSharding made_in = becomes_partial ? reduced(result) : result;
  ir::Instruction* x =
      p.emit.local_op(source, std::move(operands), local_shape(source.shape, made_in));
  Value* made = p.values.make(x, made_in, source.shape);
  if (becomes_partial) made = p.values.reshard(made, result, "result of " + source.name);
  if (!result.unreduced.empty() && !becomes_partial) {
    made->set_partial_op(p.values.declared(**term)->partial_op);
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
