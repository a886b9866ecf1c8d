// SPDX-License-Identifier: Apache-2.0
// From the planner's steps to instructions. A step between blocks that don't nest (uneven dims)
// first moves the few rows that stand on the wrong side of a boundary.
#include "src/spmd/partitioner/emit/reshard_emitter.h"

#include <algorithm>
#include <complex>
#include <map>

#include "src/base/arrays/literal_util.h"
#include "src/base/check.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {

namespace {

/// Each device has all elements, be they partial sums.
bool holds_all(const TensorSharding& s) {
  for (std::int64_t d = 0; d < s.rank(); ++d) {
    if (s.shards(d) > 1) return false;
  }
  return true;
}

/// What `make` gives for two shardings, looked for once: it goes over all devices.
template <class Known, class Make>
DevicePairs known_pairs(Known* known, Make make, const TensorSharding& from,
                        const TensorSharding& to) {
  for (const auto& [before, after, pairs] : *known) {
    if (before == from && after == to) return pairs;
  }
  return std::get<2>(known->emplace_back(from, to, DevicePairs(make(from, to))));
}

/// Some step leaves a device with all of an array that is split at both ends.
bool gathers_all(const TensorSharding& from, const TensorSharding& to, const ReshardPlan& plan) {
  if (holds_all(from) || holds_all(to)) return false;
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const ReshardStep& step) {
    return step.kind != ReshardStep::Kind::slice && holds_all(step.after);
  });
}

}  // namespace

ir::Instruction* ReshardEmitter::emit(const ReshardPlan& plan, ir::Instruction* shard,
                                      const TensorSharding& from, const TensorSharding& to,
                                      const Shape& global, ir::Opcode partial_op,
                                      const ReshardReason& reason) {
  // Only the steps that leave a device with all of it are a full gather.
  const bool gathers = gathers_all(from, to, plan);
  ReshardReason partial = reason, full = reason;
  full.full_gather = full.full_gather || gathers;
  ir::Instruction* x = shard;
  const TensorSharding* before = &from;
  Dims padded = padded_dims(from, global.dims);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ReshardStep& next = plan.steps[i];
    const Moved moved{global, partial_op, holds_all(next.after) ? full : partial};
    std::size_t count = emit_exchanges(plan, i, &x, *before, moved);
    if (count == 0) {
      x = step(next, x, *before, padded, moved);
      count = 1;
    }
    i += count - 1;
    before = &plan.steps[i].after;
    padded = plan.steps[i].padded;
  }
  TESSERA_CHECK(same_layout(*before, to), "a reshard from " + from.to_spec_string() + " to " +
                                              to.to_spec_string() + " ends at " +
                                              before->to_spec_string());
  return x;
}

ir::Instruction* ReshardEmitter::reordered(ir::Instruction* local, const TensorSharding& from,
                                           const TensorSharding& to, const std::string& reason) {
  for (const TensorSharding* s : {&from, &to}) {
    if (s->kind != TensorSharding::Kind::axes || !s->mesh) return local;
  }
  if (!local->shape.is_array() ||
      (representable_on(from, emit_.mesh()) && representable_on(to, emit_.mesh())))
    return local;
  DevicePairs pairs = known_pairs(&reordered_, reorder_pairs, from, to);
  if (!pairs.facts().moves) return local;
  return permuted(local, std::move(pairs), ReshardReason::between(from, to, reason));
}

ir::Instruction* ReshardEmitter::permuted(ir::Instruction* x, DevicePairs pairs,
                                          const ReshardReason& reason) {
  ir::Builder& b = emit_.b();
  if (pairs.all_stay(emit_.devices())) return x;
  x = b.collective_permute(x, std::move(pairs));
  report_.note(x, reason);
  return x;
}

ir::Instruction* ReshardEmitter::reblock(ir::Instruction* x, std::int64_t dim,
                                         const IndexList& axes, std::int64_t from_block,
                                         std::int64_t to_block, const Moved& moved) {
  TESSERA_CHECK(x->shape.dim(dim) == from_block, "reblock met a shard of another size");
  if (from_block == to_block) return x;
  std::int64_t n = emit_.ways(axes);
  if (n == 1) return emit_.resized(x, dim, to_block);
  const std::int64_t size = moved.global.dim(dim);
  RowExchangePlan plan = plan_row_exchange({block_part(n, size, from_block)}, n, size, to_block);
  return rows_.exchange(plan, {x}, dim, axes, nullptr, moved.reason);
}

ir::Instruction* ReshardEmitter::all_to_all(const ReshardStep& step, ir::Instruction* x,
                                            const TensorSharding& before, const Dims& padded,
                                            const Moved& moved) {
  ir::Builder& b = emit_.b();
  const std::int64_t from = step.dim, to = step.to_dim, k = emit_.ways(step.axes);
  const std::size_t f = std::size_t(from), t = std::size_t(to);
  const std::int64_t from_block = padded[f] / before.shards(from);
  const std::int64_t to_block = step.padded[t] / step.after.shards(to);
  x = reblock(x, to, before.dims[t].axes, padded[t] / before.shards(to), k * to_block, moved);
  // [.. from_block .. k * to_block ..] with the pieces in front of the dim that is put together.
  Dims split = x->shape.dims;
  split[t] = to_block;
  split.insert(split.begin() + to, k);
  x = b.reshape(x, split);
  const std::int64_t target = from + (from > to ? 1 : 0);
  Dims perm, joined;
  for (std::int64_t d = 0; d < std::int64_t(split.size()); ++d) {
    if (d == to) continue;
    if (d == target) perm.push_back(to);
    perm.push_back(d);
    joined.push_back(d == target ? k * from_block : split[std::size_t(d)]);
  }
  if (target != to + 1) x = b.transpose(x, perm);
  x = b.reshape(x, joined);
  x = b.all_to_all(x, from, emit_.groups(step.axes));
  report_.note(x, moved.reason);
  return reblock(x, from, step.after.dims[f].axes, k * from_block,
                 step.padded[f] / step.after.shards(from), moved);
}

namespace {

/// XLA's collectives join no bits of integers, and don't know exclusive or.
bool joined_by_collectives(ir::Opcode op, DType dtype) {
  if (op == ir::Opcode::xor_) return false;
  return dtype == DType::pred || (op != ir::Opcode::and_ && op != ir::Opcode::or_);
}

/// Joining a value with itself changes nothing.
bool is_idempotent(ir::Opcode op) {
  return op == ir::Opcode::maximum || op == ir::Opcode::minimum || op == ir::Opcode::and_ ||
         op == ir::Opcode::or_;
}

/// What the other devices' parts are where one device keeps the array.
ir::Instruction* neutral(ir::Builder& b, ir::Opcode op, DType dtype) {
  return b.constant(ir::neutral_of(op, dtype));
}

ir::Instruction* joined(ir::Builder& b, ir::Instruction* parts, std::int64_t dim, ir::Opcode op) {
  const DType dtype = parts->shape.dtype;
  return b.reduce(parts, b.constant(*ir::identity_of(op, dtype)), {dim},
                  ir::scalar_computation(b.module(), op, dtype));
}

}  // namespace

std::size_t ReshardEmitter::emit_exchanges(const ReshardPlan& plan, std::size_t first,
                                           ir::Instruction** x, const TensorSharding& before,
                                           const Moved& moved) {
  ir::Builder& b = emit_.b();
  const Dims& global = moved.global.dims;
  const std::size_t count = exchanges_in_one(plan.steps, first, before, global);
  if (count < 2) return 0;
  Dims from, to, ways_of;
  IndexList axes;
  for (std::size_t i = first; i < first + count; ++i) {
    const ReshardStep& step = plan.steps[i];
    from.push_back(step.dim);
    to.push_back(step.to_dim);
    ways_of.push_back(emit_.ways(step.axes));
    axes.insert(axes.end(), step.axes.begin(), step.axes.end());
  }
  const auto rank = std::int64_t(global.size());
  const std::int64_t k = emit_.ways(axes);
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
  ir::Instruction* y = b.reshape(b.transpose(b.reshape(*x, split), perm), parts);
  y = b.all_to_all(y, 0, emit_.groups(axes));
  report_.note(y, moved.reason);
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
  *x = b.reshape(b.transpose(b.reshape(y, arrived), perm), joined);
  return count;
}

ir::Instruction* ReshardEmitter::step(const ReshardStep& step, ir::Instruction* x,
                                      const TensorSharding& before, const Dims& padded,
                                      const Moved& moved) {
  using Kind = ReshardStep::Kind;
  ir::Builder& b = emit_.b();
  switch (step.kind) {
    case Kind::all_to_all:
      return all_to_all(step, x, before, padded, moved);
    case Kind::all_reduce:
      return all_reduce(step, x, moved);
    case Kind::permute: {
      DevicePairs pairs = known_pairs(&permuted_, permute_pairs, before, step.after);
      return pairs.facts().moves ? permuted(x, std::move(pairs), moved.reason) : x;
    }
    case Kind::slice:
      if (step.dim < 0) {
        // All but the first device along these axes add nothing. What only compares needs no mask.
        if (is_idempotent(moved.partial_op)) return x;
        ir::Instruction* first =
            b.compare(ir::Direction::eq, emit_.coordinate(step.axes), emit_.index(0));
        const Dims& dims = x->shape.dims;
        return b.select(b.splat(first, dims), x,
                        b.splat(neutral(b, moved.partial_op, x->shape.dtype), dims));
      }
      break;
    case Kind::unshard:
      return unshard(step, x, before, padded, moved);
    case Kind::all_gather:
    case Kind::reduce_scatter:
      break;
  }
  return change_blocks(step, x, before, padded, moved);
}

ir::Instruction* ReshardEmitter::unshard(const ReshardStep& step, ir::Instruction* x,
                                         const TensorSharding& before, const Dims& padded,
                                         const Moved& moved) {
  ir::Builder& b = emit_.b();
  const std::size_t d = std::size_t(step.dim);
  const std::int64_t k = emit_.ways(step.axes);
  const std::int64_t old_block = padded[d] / before.shards(step.dim);
  const std::int64_t new_block = step.padded[d] / step.after.shards(step.dim);
  Dims dims = x->shape.dims;
  dims[d] = k * old_block;
  const ByCoordinate starts = ByCoordinate::line(k, 0, old_block);
  std::vector<ir::Instruction*> at(dims.size(), emit_.index(0));
  at[d] = emit_.lookup(starts, step.axes);
  x = b.dynamic_update_slice(b.splat(neutral(b, moved.partial_op, x->shape.dtype), dims), x, at);
  return reblock(x, step.dim, step.after.dims[d].axes, k * old_block, new_block, moved);
}

ir::Instruction* ReshardEmitter::all_reduce(const ReshardStep& step, ir::Instruction* x,
                                            const Moved& moved) {
  ir::Builder& b = emit_.b();
  const DType dtype = x->shape.dtype;
  if (joined_by_collectives(moved.partial_op, dtype)) {
    return noted(b.all_reduce(x, ir::scalar_computation(b.module(), moved.partial_op, dtype),
                              emit_.groups(step.axes)),
                 moved);
  }
  Dims dims = x->shape.dims;
  dims.insert(dims.begin(), 1);
  x = noted(b.all_gather(b.reshape(x, dims), 0, emit_.groups(step.axes)), moved);
  return joined(b, x, 0, moved.partial_op);
}

ir::Instruction* ReshardEmitter::change_blocks(const ReshardStep& step, ir::Instruction* x,
                                               const TensorSharding& before, const Dims& padded,
                                               const Moved& moved) {
  using Kind = ReshardStep::Kind;
  ir::Builder& b = emit_.b();
  const std::int64_t dim = step.dim, k = emit_.ways(step.axes);
  const std::size_t d = std::size_t(dim);
  const std::int64_t old_block = padded[d] / before.shards(dim);
  const std::int64_t new_block = step.padded[d] / step.after.shards(dim);
  if (step.kind == Kind::all_gather) {
    x = noted(b.all_gather(x, dim, emit_.groups(step.axes)), moved);
    return reblock(x, dim, step.after.dims[d].axes, k * old_block, new_block, moved);
  }
  x = reblock(x, dim, before.dims[d].axes, old_block, k * new_block, moved);
  if (step.kind == Kind::slice) {
    const ByCoordinate starts = ByCoordinate::line(k, 0, new_block);
    return emit_.dynamic_slice_dim(x, dim, emit_.lookup(starts, step.axes), new_block);
  }
  TESSERA_CHECK(step.kind == Kind::reduce_scatter, "an unknown reshard step");
  const DType dtype = x->shape.dtype;
  if (!joined_by_collectives(moved.partial_op, dtype)) {
    x = noted(b.all_to_all(x, dim, emit_.groups(step.axes)), moved);
    Dims dims = x->shape.dims;
    dims[d] = new_block;
    dims.insert(dims.begin() + dim, k);
    return joined(b, b.reshape(x, dims), dim, moved.partial_op);
  }
  return noted(b.reduce_scatter(x, ir::scalar_computation(b.module(), moved.partial_op, dtype), dim,
                                emit_.groups(step.axes)),
               moved);
}

}  // namespace tessera::spmd
