// SPDX-License-Identifier: Apache-2.0
// The arrays of one computation in what is made of it, and their reshards.
#include "src/spmd/partitioner/values.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/contains.h"

namespace tessera::spmd {

std::string operand_reason(const ir::Instruction& source, std::size_t i) {
  return "operand " + std::to_string(i) + " of " + op_label(source);
}

Values::Values(ModulePartitioner& module, const SourceComputation& source, ShardBuilder& emit,
               ReshardEmitter& reshards)
    : module_(module),
      source_(source),
      emit_(emit),
      reshards_(reshards),
      values_(source.computation().instructions().size()) {}

namespace {

/// Whether its dims are those of local_shape.
bool is_shard(const Shape& local, const Shape& global, const TensorSharding& s) {
  if (!global.is_array() || s.kind != TensorSharding::Kind::axes) {
    return local.dims == global.dims;
  }
  if (local.dims.size() != global.dims.size() || s.dims.size() != global.dims.size()) return false;
  for (std::size_t d = 0; d < global.dims.size(); ++d) {
    if (local.dims[d] != ceil_div(global.dims[d], s.shards(std::int64_t(d)))) return false;
  }
  return true;
}

/// An array that is made says itself how it is laid out.
bool is_annotated(const ir::Instruction& local) {
  return local.shape.is_array() && !local.is(ir::Opcode::parameter) &&
         !local.is(ir::Opcode::manual_computation);
}

}  // namespace

// ----- definitions

Value* Values::make(ir::Instruction* local, TensorSharding sharding, const Shape& global) {
  sharding.replicated.clear();
  const bool whole = module_.stage() == PartitionStage::reshards;
  TESSERA_CHECK(
      local->shape.dtype == global.dtype &&
          (whole ? local->shape.dims == global.dims : is_shard(local->shape, global, sharding)),
      local->describe() + " has the shape " + local->shape.to_string() + " where a shard of " +
          global.to_string() + " by " + sharding.to_spec_string() + " is " +
          (whole ? global : local_shape(global, sharding)).to_string());
  Value& v = storage_.emplace_back();
  v.local = local;
  if (whole && is_annotated(*local)) {
    local->sharding.clear();
    local->sharding.push_back(module_.as_annotation(sharding));
  }
  v.sharding = std::move(sharding);
  v.partial_op = opcode_of(v.sharding.reduction);
  v.shape = global;
  v.shape.layout.clear();
  v.origin = emit_.current();
  v.original = &v;
  v.materializations.push_back(&v);
  return &v;
}

std::vector<Value*> Values::make(const std::vector<ir::Instruction*>& leaves,
                                 const std::vector<TensorSharding>& layouts,
                                 const std::vector<Shape>& globals) {
  std::vector<Value*> out;
  for (std::size_t i = 0; i < globals.size(); ++i) {
    out.push_back(make(leaves[i], layouts[i], globals[i]));
  }
  return out;
}

Value* Values::make_recomputable(std::function<ir::Instruction*(const TensorSharding&)> recompute,
                                 const TensorSharding& sharding, const Shape& global) {
  Value* v = make(recompute(sharding), sharding, global);
  v->recompute = std::move(recompute);
  return v;
}

void Values::define(const ir::Instruction& source, std::vector<Value*> leaves) {
  TESSERA_CHECK(leaves.size() == (source.shape.is_tuple ? leaf_count(source.shape) : 1),
                "a wrong number of leaves for " + source.describe());
  TESSERA_CHECK(source_.has(source), source.describe() + " is of another computation");
  values_[std::size_t(source.index)] = {true, std::move(leaves)};
}

void Values::define(const ir::Instruction& source, const std::vector<ir::Instruction*>& leaves,
                    const std::vector<TensorSharding>& layouts) {
  if (!source.shape.is_tuple) return define(source, make(leaves[0], layouts[0], source.shape));
  define(source, make(leaves, layouts, flatten(source.shape)));
}

void Values::define(const ir::Instruction& source, ir::Instruction* local,
                    const std::vector<TensorSharding>& layouts) {
  if (is_annotated(*local) && !source.shape.is_tuple) {
    return define(source, make(local, layouts[0], source.shape));
  }
  annotate(local, layouts);
  define(source, emit_.unpack(local), layouts);
}

void Values::annotate(ir::Instruction* op, const std::vector<TensorSharding>& layouts) const {
  if (module_.stage() == PartitionStage::device) return;
  op->sharding.clear();
  for (const TensorSharding& s : layouts) op->sharding.push_back(module_.as_annotation(s));
}

ir::Instruction* Values::pack(const Shape& shape, const std::vector<Value*>& leaves) const {
  std::vector<ir::Instruction*> parts;
  std::vector<TensorSharding> layouts;
  for (const Value* v : leaves) {
    parts.push_back(v->local);
    layouts.push_back(v->sharding);
  }
  ir::Instruction* x = emit_.pack(shape, parts);
  if (shape.is_tuple) annotate(x, layouts);
  return x;
}

const std::vector<Value*>* Values::find(const ir::Instruction& source) const {
  if (!source_.has(source)) return nullptr;
  const auto& [done, leaves] = values_[std::size_t(source.index)];
  return done ? &leaves : nullptr;
}

std::ptrdiff_t Values::leaf_of(const Value& v) const {
  const std::vector<Value*>* all = v.origin ? find(*v.origin) : nullptr;
  for (std::size_t k = 0; all && k < all->size(); ++k) {
    if ((*all)[k]->original == v.original) return std::ptrdiff_t(k);
  }
  return -1;
}

// ----- the values of source instructions

Value* Values::as_declared(Value* v, const TensorSharding& layout) {
  if (!v->shape.is_array()) return v;
  if (Value* same = materialized_in(v, layout)) return same;
  // The op that made the partial sum is the one that pays.
  const ShardBuilder::OpScope scope(emit_, *v->origin);
  return reshard(v, layout, "result of " + op_label(*v->origin));
}

std::vector<Value*> Values::declared_leaves(const ir::Instruction& source) {
  std::vector<Value*> out = computed_leaves(source);
  const std::vector<TensorSharding>& layouts = source_.shardings(source);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = as_declared(out[i], layouts[i]);
  return out;
}

Value* Values::declared(const ir::Instruction& source) {
  const std::vector<Value*>& all = computed_leaves(source);
  TESSERA_CHECK(all.size() == 1, source.describe() + " is a tuple where an array is needed");
  return as_declared(all.front(), source_.sharding(source));
}

const std::vector<Value*>& Values::computed_leaves(const ir::Instruction& source) const {
  const std::vector<Value*>* all = find(source);
  TESSERA_CHECK(all, source.describe() + " is used before it is defined");
  return *all;
}

Value* Values::computed(const ir::Instruction& source) const {
  const std::vector<Value*>& all = computed_leaves(source);
  TESSERA_CHECK(all.size() == 1, source.describe() + " has no single value");
  return all.front();
}

Value* Values::operand(const ir::Instruction& operand) {
  Value* v = computed(operand);
  if (source_.user_count(operand) == 1 || v->is_recomputable()) return v;
  return declared(operand);
}

Value* Values::operand_in(const ir::Instruction& source, std::size_t i,
                          const TensorSharding& layout) {
  Value* v = operand(*source.operand(i));
  Value* same = materialized_in(v, layout);
  return same ? same : reshard(v, layout, operand_reason(source, i));
}

std::vector<Value*> Values::operands_in(const ir::Instruction& source,
                                        const std::vector<TensorSharding>& layout) {
  std::vector<Value*> out;
  out.reserve(source.operands().size());
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    out.push_back(operand_in(source, i, layout[i]));
  }
  return out;
}

// ----- layouts

Value* Values::cheapest_materialization(Value* v, const TensorSharding& to, double* price) const {
  Value* best = nullptr;
  double least = 0;
  for (Value* m : v->original->materializations) {
    double p = 0;
    if (reduced_differently(m->sharding, to)) {
      const TensorSharding whole = reduced(m->sharding);
      p = module_.reshard_cost(m->sharding, whole, v->shape) +
          module_.reshard_cost(whole, to, v->shape);
    } else if (!same_layout(m->sharding, to)) {
      p = module_.reshard_cost(m->sharding, to, v->shape);
    }
    if (!best || p < least) {
      best = m;
      least = p;
    }
  }
  *price = least;
  return best;
}

double Values::reshard_price(Value* v, const TensorSharding& to) const {
  if (v->is_recomputable() && to.unreduced.empty()) return 0;
  double price = 0;
  cheapest_materialization(v, to, &price);
  return price;
}

Value* Values::materialized_in(Value* v, const TensorSharding& layout) const {
  if (same_layout(v->sharding, layout)) return v;
  for (Value* m : v->original->materializations) {
    if (same_layout(m->sharding, layout)) return m;
  }
  return nullptr;
}

Value* Values::add_materialization(Value* v, ir::Instruction* local, const TensorSharding& layout) {
  Value* made = make(local, layout, v->shape);
  made->original = v->original;
  made->origin = v->origin;
  v->original->materializations.push_back(made);
  return made;
}

ir::Instruction* Values::explicit_reshard(const Value& from, const ReshardReason& reason) {
  ir::ShardingConstraintAttrs attrs;
  attrs.kind = ir::ShardingConstraintAttrs::Kind::reshard;
  attrs.reason = reason.text;
  ir::Instruction* x = emit_.b().emit_shaped(ir::Opcode::sharding_constraint, from.local->shape,
                                             {from.local}, std::move(attrs));
  (*module_.origins())[x] = emit_.current();
  return x;
}

ir::Instruction* Values::lowered_reshard(const Value& from, const TensorSharding& to,
                                         const ReshardReason& reason) {
  if (!reduced_differently(from.sharding, to)) return planned_reshard(from, to, reason);
  // Partial values of one kind are none of another: they are completed in between.
  Value whole = from;
  whole.sharding = reduced(from.sharding);
  whole.local = planned_reshard(from, whole.sharding, reason);
  return planned_reshard(whole, to, reason);
}

ir::Instruction* Values::planned_reshard(const Value& from, const TensorSharding& to,
                                         const ReshardReason& reason) {
  const ReshardPlan plan = module_.plan_reshard(from.sharding, to, from.shape);
  ReshardReason full = ReshardReason::between(from.sharding, to, reason.text);
  full.full_gather = reason.full_gather;
  if (module_.log().all_records()) {
    full.array = {from.origin, std::size_t(std::max<std::ptrdiff_t>(leaf_of(from), 0)), from.shape,
                  from.sharding, to};
  }
  const bool partial = !from.sharding.unreduced.empty();
  return reshards_.emit(plan, from.local, from.sharding, to, from.shape,
                        partial ? from.partial_op : opcode_of(to.reduction), full);
}

Value* Values::reshard(Value* v, const TensorSharding& to, const ReshardReason& reason) {
  for (Value* m : v->original->materializations) {
    if (same_layout(m->sharding, to)) return m;
  }
  if (v->is_recomputable() && to.unreduced.empty()) {
    return add_materialization(v, v->original->recompute(to), to);
  }
  double price = 0;
  Value* from = cheapest_materialization(v, to, &price);
  ir::Instruction* x = module_.stage() == PartitionStage::reshards
                           ? explicit_reshard(*from, reason)
                           : lowered_reshard(*from, to, reason);
  Value* made = add_materialization(v, x, to);
  if (!from->sharding.unreduced.empty() && !reduced_differently(from->sharding, to)) {
    made->set_partial_op(from->partial_op);
  }
  return made;
}

ir::Instruction* Values::masked(Value* v, const Dims& dims, ir::Instruction* neutral) {
  Dims padded;
  for (std::int64_t d : dims) {
    if (v->shape.dim(d) % v->sharding.shards(d) != 0) padded.push_back(d);
  }
  if (padded.empty()) return v->local;
  ir::Instruction*& out = v->derived[join(padded) + ":" + neutral->name];
  if (!out) out = emit_.mask_padding(v->local, v->sharding, v->shape.dims, padded, neutral);
  return out;
}

}  // namespace tessera::spmd
