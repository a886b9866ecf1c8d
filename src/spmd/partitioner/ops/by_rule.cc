// SPDX-License-Identifier: Apache-2.0
// Ops that run unchanged on shards, as long as only factors are split along which the op is
// independent.
#include <algorithm>

#include "src/ir/custom_calls/custom_call.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

FactorRule split_only(FactorRule rule, std::initializer_list<FactorKind> kinds) {
  for (Factor& f : rule.factors) {
    const bool may = std::find(kinds.begin(), kinds.end(), f.kind) != kinds.end();
    if (!may && f.kind != FactorKind::pass_through) f.kind = FactorKind::need_replication;
  }
  return rule;
}

FactorRule without_windows(FactorRule rule) {
  return split_only(std::move(rule), {FactorKind::reduction});
}

namespace {

/// An operand gathered since the op needs all of it: in the report a full gather, or an error if
/// the options say so. Returns the bytes that a device receives.
double gather_operand(PartitionContext& p, const ir::Instruction& source, std::size_t i, Value* v,
                      const std::string& reason, ir::Instruction** local) {
  const TensorSharding all = p.source.replicated(v->shape.rank());
  double bytes = 0;
  if (!is_fully_replicated(v->sharding)) {
    bytes = p.module.plan_reshard(v->sharding, all, v->shape).bytes_received;
  }
  ReshardReason gather(operand_reason(source, i) + ": " + reason);
  gather.full_gather = true;
  *local = p.values.reshard(v, all, gather)->local;
  return bytes;
}

}  // namespace

void replicate(PartitionContext& p, const ir::Instruction& source, const std::string& reason) {
  std::vector<ir::Instruction*> operands;
  double bytes = 0;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    std::vector<ir::Instruction*> parts;
    for (Value* v : p.values.declared_leaves(o)) {
      parts.push_back(v->local);
      if (v->shape.is_array()) bytes += gather_operand(p, source, i, v, reason, &parts.back());
    }
    operands.push_back(p.emit.pack(o.shape, parts));
  }
  if (bytes > 0) {
    std::string at = source.location().to_string();
    p.module.log().add_replicated_op(op_label(source) + (at.empty() ? "" : " (" + at + ")") + ": " +
                                     reason + "; each device receives " +
                                     std::to_string(std::int64_t(bytes)) + " bytes");
  }
  ir::Instruction* x = p.emit.local_op(source, operands, source.shape);
  std::vector<TensorSharding> layouts;
  for (const Shape& leaf : flatten(source.shape)) {
    layouts.push_back(p.source.replicated(leaf.rank()));
  }
  p.values.define(source, x, layouts);
}

void define_sum_of_bits(PartitionContext& p, const ir::Instruction& source, ir::Instruction* local,
                        const TensorSharding& partial, const TensorSharding& to) {
  ir::Instruction* bits = as_bits(p.b(), local);
  Value* sum = p.values.make(bits, partial, Shape(bits->shape.dtype, source.shape.dims));
  sum = p.values.reshard(sum, to, "result of " + op_label(source));
  ir::Instruction* x = from_bits(p.b(), sum->local, source.shape.dtype);
  p.values.define(source, p.values.make(x, sum->sharding, source.shape));
}

namespace {

/// Whether what the op computes takes all of its k-th operand: a matrix that is decomposed.
bool requires_replicated_operand(const ir::Instruction& op, std::size_t k) {
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

}  // namespace

bool gathers_for_lack_of_form(PartitionContext& p, const ir::Instruction& source, std::size_t i,
                              const Value& v, const ComputeLayout& layout) {
  const std::vector<TensorSharding>& results = p.source.shardings(source);
  return !std::all_of(results.begin(), results.end(), is_fully_replicated) &&
         !v.is_recomputable() && !is_fully_replicated(v.sharding) && v.sharding.unreduced.empty() &&
         is_fully_replicated(layout.operands[i]) && !requires_replicated_operand(source, i);
}

namespace {

/// The rule by which an op can be cut; none if it can't.
std::optional<FactorRule> independent_factors(const ir::Instruction& source) {
  std::optional<FactorRule> rule = rule_for(source);
  bool arrays = true;
  for (const ir::Instruction* o : source.operands()) arrays &= o->shape.is_array();
  for (const Shape& s : flatten(source.shape)) arrays &= s.is_array();
  if (!rule || !arrays) return std::nullopt;
  return split_only(*rule, {});
}

}  // namespace

OpPlan plan_by_rule(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<FactorRule> rule = independent_factors(source);
  if (!rule) return plan_replicated(p, source);
  const ComputeLayout layout = p.layouts.choose(source, *rule);
  OpPlan plan = planned(layout);
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    // The report tells of such gathers: the op itself does it.
    const Value* v = p.values.operand(*source.operand(i));
    if (!gathers_for_lack_of_form(p, source, i, *v, layout)) continue;
    plan.operands[i] = v->sharding;
    plan.results = reduced(p.source.shardings(source));
  }
  return plan;
}

void partition_by_rule(PartitionContext& p, const ir::Instruction& source) {
  const std::optional<FactorRule> rule = independent_factors(source);
  if (!rule) return replicate(p, source, "no partitioned form is known for it");
  ComputeLayout layout = p.layouts.choose(source, *rule);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    Value* v = p.values.operand(o);
    operands.push_back(nullptr);
    if (gathers_for_lack_of_form(p, source, i, *v, layout)) {
      gather_operand(p, source, i, v, "it needs the dims unsplit that are split", &operands.back());
    } else {
      operands.back() = p.values.reshard(v, layout.operands[i], operand_reason(source, i))->local;
    }
  }
  ir::Instruction* x = p.emit.local_op(source, operands, local_tuple(source.shape, layout.results));
  p.values.define(source, x, layout.results);
}

}  // namespace tessera::spmd
