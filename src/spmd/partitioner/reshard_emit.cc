// SPDX-License-Identifier: Apache-2.0
// From the planner's steps to instructions. A step between blocks that don't nest (uneven dims)
// first moves the few rows that stand on the wrong side of a boundary.
#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "src/ir/analysis/cost.h"
#include "src/spmd/partitioner/context.h"
#include "src/spmd/reshard/device_orders.h"

namespace tessera::spmd {

namespace {

/// Elements of `after` that `before` lacks.
IndexList added(const IndexList& before, const IndexList& after) {
  IndexList out;
  for (int a : after) {
    if (std::find(before.begin(), before.end(), a) == before.end()) out.push_back(a);
  }
  return out;
}

/// Each device has all elements, be they partial sums.
bool holds_all(const TensorSharding& s) {
  for (std::int64_t d = 0; d < s.rank(); ++d) {
    if (s.shards(d) > 1) return false;
  }
  return true;
}

/// Some step leaves a device with all of an array that is split at both ends.
bool gathers_all(const TensorSharding& from, const TensorSharding& to, const ReshardPlan& plan) {
  if (holds_all(from) || holds_all(to)) return false;
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const ReshardStep& step) {
    return step.kind != ReshardStep::Kind::slice && holds_all(step.after);
  });
}

}  // namespace

void ComputationPartitioner::note(ir::Instruction* collective) {
  note(collective, ir::received_bytes(*collective, module_.devices()));
}

void ComputationPartitioner::note(ir::Instruction* collective, double bytes) {
  CommunicationRecord r;
  r.kind = std::string(ir::name(collective->opcode));
  r.instruction = collective->name;
  if (current_) {
    r.for_op = op_label(*current_);
    if (!current_->metadata->op_name.empty()) r.for_op += " " + current_->metadata->op_name;
    r.location = current_->location();
  }
  r.from = transfer.from;
  r.to = transfer.to;
  r.reason = transfer.reason;
  r.full_gather = transfer.full_gather;
  r.bytes_received = bytes;
  if (module_.options().all_records) {
    r.op = current_;
    if (transfer.source) {
      r.value = transfer.source->origin;
      r.shape = transfer.source->shape;
      r.from_sharding = transfer.source->sharding;
      r.to_sharding = *transfer.target;
      if (const std::vector<Value*>* all = r.value ? defined(*r.value) : nullptr) {
        const Value* original = transfer.source->original;
        for (std::size_t k = 0; k < all->size(); ++k) {
          if ((*all)[k]->original == original) r.leaf = k;
        }
      }
    }
  }
  module_.record(std::move(r), collective);
}

Value* ComputationPartitioner::cheapest_materialization(Value* v, const TensorSharding& to,
                                                        double* price) const {
  Value* best = nullptr;
  double least = 0;
  for (Value* f : v->original->materializations) {
    bool grows = !added(f->sharding.unreduced, to.unreduced).empty();
    if (grows && (!f->sharding.unreduced.empty() || f->partial_op != ir::Opcode::add)) continue;
    double p = same_layout(f->sharding, to)
                   ? 0
                   : reshard_cost(f->sharding, to, v->shape.dims,
                                  std::int64_t(byte_size(v->shape.dtype)), cost().transfer);
    if (!best || p < least) {
      best = f;
      least = p;
    }
  }
  TESSERA_CHECK(best, "no form of the value can be brought to " + to.to_spec_string());
  *price = least;
  return best;
}

double ComputationPartitioner::reshard_price(Value* v, const TensorSharding& to) const {
  if (v->original->recompute && to.unreduced.empty()) return 0;
  double price = 0;
  cheapest_materialization(v, to, &price);
  return price;
}

Value* ComputationPartitioner::materialized_in(Value* v, const TensorSharding& layout) const {
  if (same_layout(v->sharding, layout)) return v;
  for (Value* f : v->original->materializations) {
    if (same_layout(f->sharding, layout)) return f;
  }
  return nullptr;
}

Value* ComputationPartitioner::reshard(Value* v, const TensorSharding& to,
                                       const std::string& reason) {
  for (Value* f : v->original->materializations) {
    if (same_layout(f->sharding, to)) return f;
  }
  if (v->original->recompute && to.unreduced.empty()) {
    Value* made = make(v->original->recompute(to), to, v->shape);
    made->original = v->original;
    made->origin = v->origin;
    v->original->materializations.push_back(made);
    return made;
  }
  double price = 0;
  Value* from = cheapest_materialization(v, to, &price);
  if (price > 0 && !is_whole(from->sharding) && !is_whole(to) && needed_whole(v)) {
    from = reshard(v, whole(v->shape.rank()), reason + "; it is needed whole");
  }
  ReshardPlan plan = plan_reshard(from->sharding, to, v->shape.dims,
                                  std::int64_t(byte_size(v->shape.dtype)), cost().transfer);
  if (module_.options().alternatives && plan.bytes_received > 0) {
    suggest_ends(v, from->sharding, to, plan.bytes_received);
  }
  plan.full_gather = gathers_all(from->sharding, to, plan);
  Transfer keep = transfer;
  ir::Instruction* x = from->local;
  const TensorSharding* before = &from->sharding;
  Dims padded = padded_dims(from->sharding, v->shape.dims);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (std::size_t count = emit_slices(plan, i, &x, *before, padded); count > 0) {
      i += count - 1;
      before = &plan.steps[i].after;
      padded = plan.steps[i].padded;
      continue;
    }
    const ReshardStep& step = plan.steps[i];
    transfer = {from->sharding.to_spec_string(),
                to.to_spec_string(),
                reason,
                keep.full_gather || (plan.full_gather && holds_all(step.after)),
                from,
                &to};
    if (std::size_t count = emit_exchanges(plan, i, &x, *before, v->shape.dims); count > 0) {
      i += count - 1;
      before = &plan.steps[i].after;
      padded = plan.steps[i].padded;
      continue;
    }
    x = apply(step, x, *before, padded, v->shape, from->partial_op);
    before = &step.after;
    padded = step.padded;
  }
  transfer = keep;
  TESSERA_CHECK(same_layout(*before, to), "a reshard from " + from->sharding.to_spec_string() +
                                              " to " + to.to_spec_string() + " ends at " +
                                              before->to_spec_string());
  Value* made = make(x, to, v->shape);
  made->original = v->original;
  made->partial_op = from->partial_op;
  made->origin = v->origin;
  v->original->materializations.push_back(made);
  return made;
}

ir::Instruction* ComputationPartitioner::reordered(ir::Instruction* local,
                                                   const TensorSharding& from,
                                                   const TensorSharding& to,
                                                   const std::string& reason) {
  for (const TensorSharding* s : {&from, &to}) {
    if (s->kind != TensorSharding::Kind::axes || !s->mesh) return local;
  }
  if (!local->shape.is_array() || (representable_on(from, mesh()) && representable_on(to, mesh())))
    return local;
  auto pairs = reorder_pairs(from, to);
  if (std::all_of(pairs.begin(), pairs.end(), [](auto& p) { return p.first == p.second; })) {
    return local;
  }
  const Transfer keep = transfer;
  transfer = {from.to_spec_string(), to.to_spec_string(), reason, false};
  ir::Instruction* x = permuted(local, std::move(pairs));
  transfer = keep;
  return x;
}

ir::Instruction* ComputationPartitioner::permuted(
    ir::Instruction* x, std::vector<std::pair<std::int64_t, std::int64_t>> pairs) {
  if (x->is(ir::Opcode::collective_permute) && x->parent == b().computation()) {
    // Two in a row are one; the first goes if nobody else needs it.
    std::map<std::int64_t, std::int64_t> source_of;
    for (const auto& [from, to] : x->get<ir::PermuteAttrs>().source_target_pairs) {
      source_of[to] = from;
    }
    const bool all = std::all_of(pairs.begin(), pairs.end(),
                                 [&](const auto& p) { return source_of.count(p.first) > 0; });
    if (all) {
      for (auto& [from, to] : pairs) from = source_of[from];
      x = x->operands()[0];
    }
  }
  if (std::all_of(pairs.begin(), pairs.end(), [](const auto& p) { return p.first == p.second; }) &&
      std::int64_t(pairs.size()) == module_.devices()) {
    return x;
  }
  x = b().collective_permute(x, std::move(pairs));
  note(x);
  return x;
}

std::size_t ComputationPartitioner::emit_slices(const ReshardPlan& plan, std::size_t first,
                                                ir::Instruction** x, const TensorSharding& before,
                                                const Dims& padded) {
  const Dims& dims = (*x)->shape.dims;
  std::vector<ir::Instruction*> starts(dims.size(), index(0));
  Dims sizes = dims;
  std::size_t count = 0;
  for (std::size_t i = first; i < plan.steps.size(); ++i, ++count) {
    const ReshardStep& step = plan.steps[i];
    if (step.kind != ReshardStep::Kind::slice || step.dim < 0) break;
    const std::size_t d = std::size_t(step.dim);
    const std::int64_t k = ways(step.axes);
    const std::int64_t block = step.padded[d] / step.after.shards(step.dim);
    const bool nests = padded[d] / before.shards(step.dim) == k * block;
    if (!nests || sizes[d] != dims[d]) break;
    Dims offsets;
    for (std::int64_t c = 0; c < k; ++c) offsets.push_back(c * block);
    starts[d] = lookup(offsets, step.axes);
    sizes[d] = block;
  }
  if (count < 2) return 0;
  *x = b().dynamic_slice(*x, std::move(starts), std::move(sizes));
  return count;
}

ir::Instruction* ComputationPartitioner::reblock(ir::Instruction* x, std::int64_t dim,
                                                 std::int64_t size, const IndexList& axes,
                                                 std::int64_t from_block, std::int64_t to_block,
                                                 const Shape& global) {
  TESSERA_CHECK(x->shape.dim(dim) == from_block, "reblock met a shard of another size");
  if (from_block == to_block) return x;
  std::int64_t n = ways(axes);
  if (n == 1) return resized(x, dim, to_block);
  RowExchangePlan plan = plan_row_exchange({block_part(n, size, from_block)}, n, size, to_block);
  return emit_row_exchange(plan, {x}, dim, axes, nullptr, global);
}

ir::Instruction* ComputationPartitioner::all_to_all(const ReshardStep& step, ir::Instruction* x,
                                                    const TensorSharding& before,
                                                    const Dims& padded, const Shape& global) {
  const std::int64_t from = step.dim, to = step.to_dim, k = ways(step.axes);
  const std::size_t f = std::size_t(from), t = std::size_t(to);
  const std::int64_t from_block = padded[f] / before.shards(from);
  const std::int64_t to_block = step.padded[t] / step.after.shards(to);
  x = reblock(x, to, global.dim(to), before.dims[t].axes, padded[t] / before.shards(to),
              k * to_block, global);
  // [.. from_block .. k * to_block ..] with the pieces in front of the dim that is put together.
  Dims split = x->shape.dims;
  split[t] = to_block;
  split.insert(split.begin() + to, k);
  x = b().reshape(x, split);
  const std::int64_t target = from + (from > to ? 1 : 0);
  Dims perm, joined;
  for (std::int64_t d = 0; d < std::int64_t(split.size()); ++d) {
    if (d == to) continue;
    if (d == target) perm.push_back(to);
    perm.push_back(d);
    joined.push_back(d == target ? k * from_block : split[std::size_t(d)]);
  }
  if (target != to + 1) x = b().transpose(x, perm);
  x = b().reshape(x, joined);
  x = b().all_to_all(x, from, ir::DeviceGroups::over(mesh(), step.axes));
  note(x);
  return reblock(x, from, global.dim(from), step.after.dims[f].axes, k * from_block,
                 step.padded[f] / step.after.shards(from), global);
}

namespace {

/// XLA's collectives join no bits of integers, and don't know exclusive or.
bool joined_by_collectives(ir::Opcode op, DType dtype) {
  if (op == ir::Opcode::xor_) return false;
  return dtype == DType::pred || (op != ir::Opcode::and_ && op != ir::Opcode::or_);
}

ir::Instruction* joined(ir::Builder& b, ir::Instruction* parts, std::int64_t dim, ir::Opcode op) {
  const DType dtype = parts->shape.dtype;
  return b.reduce(parts, b.constant(*ir::identity_of(op, dtype)), {dim},
                  ir::scalar_computation(b.module(), op, dtype));
}

}  // namespace

std::size_t ComputationPartitioner::emit_exchanges(const ReshardPlan& plan, std::size_t first,
                                                   ir::Instruction** x,
                                                   const TensorSharding& before,
                                                   const Dims& global) {
  const std::size_t count = exchanges_in_one(plan.steps, first, before, global);
  if (count < 2) return 0;
  Dims from, to, ways_of;
  IndexList axes;
  for (std::size_t i = first; i < first + count; ++i) {
    const ReshardStep& step = plan.steps[i];
    from.push_back(step.dim);
    to.push_back(step.to_dim);
    ways_of.push_back(ways(step.axes));
    axes.insert(axes.end(), step.axes.begin(), step.axes.end());
  }
  const auto rank = std::int64_t(global.size());
  const std::int64_t k = ways(axes);
  // The pieces of all dims that are given out in front, for (first step's, second step's, ...).
  Dims split, front, behind;
  for (std::int64_t d = 0; d < rank; ++d) {
    std::int64_t block = (*x)->shape.dim(d);
    for (std::size_t i = 0; i < count; ++i) {
      if (to[i] != d) continue;
      split.push_back(ways_of[i]);
      block /= ways_of[i];
    }
    behind.push_back(std::int64_t(split.size()));
    split.push_back(block);
  }
  for (std::size_t i = 0; i < count; ++i) {
    // Of those that go to one dim, the earlier is the major one.
    const auto before_it = std::count(to.begin(), to.begin() + std::ptrdiff_t(i), to[i]);
    const auto all = std::count(to.begin(), to.end(), to[i]);
    front.push_back(behind[std::size_t(to[i])] - all + before_it);
  }
  Dims perm = front;
  perm.insert(perm.end(), behind.begin(), behind.end());
  Dims parts{k};
  for (const std::int64_t d : behind) parts.push_back(split[std::size_t(d)]);
  ir::Instruction* y = b().reshape(b().transpose(b().reshape(*x, split), perm), parts);
  y = b().all_to_all(y, 0, ir::DeviceGroups::over(mesh(), axes));
  note(y);
  // Of those that leave one dim, the later is the major one.
  Dims arrived = ways_of, joined;
  arrived.insert(arrived.end(), parts.begin() + 1, parts.end());
  perm.clear();
  for (std::int64_t d = 0; d < rank; ++d) {
    std::int64_t block = parts[std::size_t(d) + 1];
    for (std::size_t i = count; i-- > 0;) {
      if (from[i] != d) continue;
      perm.push_back(std::int64_t(i));
      block *= ways_of[i];
    }
    perm.push_back(std::int64_t(count) + d);
    joined.push_back(block);
  }
  *x = b().reshape(b().transpose(b().reshape(y, arrived), perm), joined);
  return count;
}

ir::Instruction* ComputationPartitioner::apply(const ReshardStep& step, ir::Instruction* x,
                                               const TensorSharding& before, const Dims& padded,
                                               const Shape& global, ir::Opcode partial_op) {
  const std::int64_t k = ways(step.axes);
  using Kind = ReshardStep::Kind;
  if (step.kind == Kind::slice && step.dim < 0) {
    // All but the first device along these axes add nothing.
    ir::Instruction* first = b().compare(ir::Direction::eq, coordinate(step.axes), index(0));
    const Dims& dims = x->shape.dims;
    return b().select(b().splat(first, dims), x,
                      b().splat(constant_scalar(x->shape.dtype, 0), dims));
  }
  if (step.kind == Kind::all_to_all) return all_to_all(step, x, before, padded, global);
  if (step.kind == Kind::permute) {
    auto pairs = permute_pairs(before, step.after);
    bool moves = false;
    for (const auto& [source, target] : pairs) moves |= source != target;
    return moves ? permuted(x, std::move(pairs)) : x;
  }
  if (step.kind == Kind::all_reduce && !joined_by_collectives(partial_op, x->shape.dtype)) {
    Dims dims = x->shape.dims;
    dims.insert(dims.begin(), 1);
    x = b().all_gather(b().reshape(x, dims), 0, ir::DeviceGroups::over(mesh(), step.axes));
    note(x);
    return joined(b(), x, 0, partial_op);
  }
  if (step.kind == Kind::all_reduce) {
    x = b().all_reduce(x, ir::scalar_computation(module_.target(), partial_op, x->shape.dtype),
                       ir::DeviceGroups::over(mesh(), step.axes));
    note(x);
    return x;
  }
  // One dim changes its number of blocks.
  const std::int64_t dim = step.dim, size = global.dim(dim);
  const std::size_t d = std::size_t(dim);
  const std::int64_t old_block = padded[d] / before.shards(dim);
  const std::int64_t new_block = step.padded[d] / step.after.shards(dim);
  if (step.kind == Kind::all_gather) {
    x = b().all_gather(x, dim, ir::DeviceGroups::over(mesh(), step.axes));
    note(x);
    return reblock(x, dim, size, step.after.dims[d].axes, k * old_block, new_block, global);
  }
  x = reblock(x, dim, size, before.dims[d].axes, old_block, k * new_block, global);
  if (step.kind == Kind::slice) {
    Dims starts;
    for (std::int64_t c = 0; c < k; ++c) starts.push_back(c * new_block);
    return dynamic_slice_dim(x, dim, lookup(starts, step.axes), new_block);
  }
  TESSERA_CHECK(step.kind == Kind::reduce_scatter, "an unknown reshard step");
  if (!joined_by_collectives(partial_op, x->shape.dtype)) {
    x = b().all_to_all(x, dim, ir::DeviceGroups::over(mesh(), step.axes));
    note(x);
    Dims dims = x->shape.dims;
    dims[d] = new_block;
    dims.insert(dims.begin() + dim, k);
    return joined(b(), b().reshape(x, dims), dim, partial_op);
  }
  x = b().reduce_scatter(x, ir::scalar_computation(module_.target(), partial_op, x->shape.dtype),
                         dim, ir::DeviceGroups::over(mesh(), step.axes));
  note(x);
  return x;
}

}  // namespace tessera::spmd
