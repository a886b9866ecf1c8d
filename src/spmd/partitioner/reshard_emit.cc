// SPDX-License-Identifier: Apache-2.0
// From the planner's steps to instructions. A step between blocks that don't nest (uneven dims)
// first moves the few rows that stand on the wrong side of a boundary.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

namespace {

/// Elements of `after` that `before` lacks.
std::vector<int> added(const std::vector<int>& before, const std::vector<int>& after) {
  std::vector<int> out;
  for (int a : after) {
    if (std::find(before.begin(), before.end(), a) == before.end()) out.push_back(a);
  }
  return out;
}

bool holds_all(const TensorSharding& s) {
  for (const DimSharding& d : s.dims) {
    if (!d.axes.empty()) return false;
  }
  return true;
}

}  // namespace

void ComputationPartitioner::note(ir::Instruction* collective, double bytes) {
  CommunicationRecord r;
  r.kind = std::string(ir::name(collective->opcode));
  r.instruction = collective->name;
  if (current_) {
    r.for_op = op_label(*current_);
    if (!current_->metadata.op_name.empty()) r.for_op += " " + current_->metadata.op_name;
    r.location = current_->location();
  }
  r.from = transfer.from;
  r.to = transfer.to;
  r.reason = transfer.reason;
  r.full_gather = transfer.full_gather;
  r.bytes_received = bytes;
  module_.record(std::move(r), collective);
}

Value* ComputationPartitioner::cheapest_form(Value* v, const TensorSharding& to,
                                             double* price) const {
  Value* best = nullptr;
  double least = 0;
  for (Value* f : v->home->forms) {
    bool grows = !added(f->sharding.unreduced, to.unreduced).empty();
    if (grows && (!f->sharding.unreduced.empty() || f->partial_op != ir::Opcode::add)) continue;
    double p = same_layout(f->sharding, to)
                   ? 0
                   : reshard_cost(f->sharding, to, v->shape.dims,
                                  std::int64_t(byte_size(v->shape.dtype)), cost());
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
  double price = 0;
  cheapest_form(v, to, &price);
  return price;
}

Value* ComputationPartitioner::reshard(Value* v, const TensorSharding& to,
                                       const std::string& reason) {
  double price = 0;
  Value* from = cheapest_form(v, to, &price);
  if (same_layout(from->sharding, to)) return from;
  ReshardPlan plan = plan_reshard(from->sharding, to, v->shape.dims,
                                  std::int64_t(byte_size(v->shape.dtype)), cost());
  if (plan.full_gather && module_.options().full_gather_is_error) {
    throw CompileError(op_label(*current_) + ": " + reason + " of shape " + v->shape.to_string() +
                           " goes from " + from->sharding.to_spec_string() + " to " +
                           to.to_spec_string() +
                           " by way of a full copy on each device, which receives " +
                           std::to_string(std::int64_t(plan.bytes_received)) +
                           " bytes; give it a sharding that shares dims with either end",
                       current_->location());
  }
  Transfer keep = transfer;
  ir::Instruction* x = from->local;
  const TensorSharding* before = &from->sharding;
  for (const ReshardStep& step : plan.steps) {
    transfer = {from->sharding.to_spec_string(), to.to_spec_string(), reason,
                keep.full_gather || (plan.full_gather && holds_all(step.after))};
    x = apply(step, x, *before, v->shape, from->partial_op);
    before = &step.after;
  }
  transfer = keep;
  TESSERA_CHECK(same_layout(*before, to), "a reshard from " + from->sharding.to_spec_string() +
                                              " to " + to.to_spec_string() + " ends at " +
                                              before->to_spec_string());
  Value* made = make(x, to, v->shape);
  made->home = v->home;
  made->partial_op = from->partial_op;
  made->origin = v->origin;
  v->home->forms.push_back(made);
  return made;
}

ir::Instruction* ComputationPartitioner::reblock(ir::Instruction* x, std::int64_t dim,
                                                 std::int64_t size, const std::vector<int>& axes,
                                                 std::int64_t from_block, std::int64_t to_block,
                                                 const Shape& global) {
  TESSERA_CHECK(x->shape.dim(dim) == from_block, "reblock met a shard of another size");
  if (from_block == to_block) return x;
  std::int64_t n = ways(axes);
  if (n == 1) return resized(x, dim, to_block);
  RoutePlan plan = plan_route({block_part(n, size, from_block)}, n, size, to_block);
  return emit_route(plan, {x}, dim, axes, nullptr, global);
}

ir::Instruction* ComputationPartitioner::all_to_all(const ReshardStep& step, ir::Instruction* x,
                                                    const TensorSharding& before,
                                                    const Shape& global) {
  const std::int64_t from = step.dim, to = step.to_dim, k = ways(step.axes);
  const std::int64_t from_size = global.dim(from), to_size = global.dim(to);
  const std::int64_t from_block = ceil_div(from_size, before.shards(from));
  const std::int64_t to_block = ceil_div(to_size, before.shards(to) * k);
  x = reblock(x, to, to_size, before.dims[std::size_t(to)].axes,
              ceil_div(to_size, before.shards(to)), k * to_block, global);
  // [.. from_block .. k * to_block ..] with the pieces in front of the dim that is put together.
  Dims split = x->shape.dims;
  split[std::size_t(to)] = to_block;
  split.insert(split.begin() + to, k);
  x = b().reshape(x, split);
  std::int64_t rank = std::int64_t(split.size());
  std::int64_t pieces = to, target = from + (from > to ? 1 : 0);
  Dims perm;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == pieces) continue;
    if (d == target) perm.push_back(pieces);
    perm.push_back(d);
  }
  bool moves = false;
  for (std::int64_t d = 0; d < rank; ++d) moves |= perm[std::size_t(d)] != d;
  if (moves) x = b().transpose(x, perm);
  Dims joined;
  for (std::size_t d = 0; d < perm.size(); ++d) {
    if (perm[d] == pieces) {
      joined.push_back(k * from_block);
      ++d;
    } else {
      joined.push_back(x->shape.dims[d]);
    }
  }
  x = b().reshape(x, joined);
  x = b().all_to_all(x, from, ir::DeviceGroups::over(mesh(), step.axes));
  note(x, byte_count(x) * double(k - 1) / double(k));
  const std::vector<int>& left = step.after.dims[std::size_t(from)].axes;
  return reblock(x, from, from_size, left, k * from_block, ceil_div(from_size, ways(left)), global);
}

ir::Instruction* ComputationPartitioner::apply(const ReshardStep& step, ir::Instruction* x,
                                               const TensorSharding& before, const Shape& global,
                                               ir::Opcode partial_op) {
  const std::int64_t k = ways(step.axes);
  const double fraction = double(k - 1) / double(k);
  const std::size_t d = std::size_t(step.dim);
  using Kind = ReshardStep::Kind;
  switch (step.kind) {
    case Kind::slice: {
      std::vector<int> partial = added(before.unreduced, step.after.unreduced);
      if (!partial.empty()) {
        // All but the first device along these axes add nothing.
        Dims first(std::size_t(ways(partial)), 0);
        first[0] = 1;
        ir::Instruction* is_first =
            b().compare(ir::Direction::eq, coordinate(partial), index(0));
        const Dims& dims = x->shape.dims;
        return b().select(b().splat(is_first, dims), x,
                          b().splat(constant_scalar(x->shape.dtype, 0), dims));
      }
      const std::int64_t size = global.dim(step.dim), old_ways = before.shards(step.dim);
      const std::int64_t block = ceil_div(size, old_ways * k);
      x = reblock(x, step.dim, size, before.dims[d].axes, ceil_div(size, old_ways), k * block,
                  global);
      Dims starts;
      for (std::int64_t c = 0; c < k; ++c) starts.push_back(c * block);
      return dynamic_slice_dim(x, step.dim, lookup(starts, step.axes), block);
    }
    case Kind::all_gather: {
      const std::int64_t size = global.dim(step.dim), old_ways = before.shards(step.dim);
      const std::int64_t block = ceil_div(size, old_ways);
      x = b().all_gather(x, step.dim, ir::DeviceGroups::over(mesh(), step.axes));
      note(x, byte_count(x) * fraction);
      return reblock(x, step.dim, size, step.after.dims[d].axes, k * block,
                     ceil_div(size, old_ways / k), global);
    }
    case Kind::all_to_all:
      return all_to_all(step, x, before, global);
    case Kind::permute: {
      auto pairs = permute_pairs(before, step.after);
      TESSERA_CHECK(before.shard_dims(global.dims) == step.after.shard_dims(global.dims),
                    "a permute between shards of different shapes");
      bool moves = false;
      for (const auto& [source, target] : pairs) moves |= source != target;
      if (!moves) return x;
      x = b().collective_permute(x, pairs);
      note(x, byte_count(x));
      return x;
    }
    case Kind::all_reduce: {
      x = b().all_reduce(x, ir::scalar_computation(module_.target(), partial_op, x->shape.dtype),
                         ir::DeviceGroups::over(mesh(), step.axes));
      note(x, 2 * byte_count(x) * fraction);
      return x;
    }
    case Kind::reduce_scatter: {
      const std::int64_t size = global.dim(step.dim), old_ways = before.shards(step.dim);
      const std::int64_t block = ceil_div(size, old_ways * k);
      x = reblock(x, step.dim, size, before.dims[d].axes, ceil_div(size, old_ways), k * block,
                  global);
      x = b().reduce_scatter(x,
                             ir::scalar_computation(module_.target(), partial_op, x->shape.dtype),
                             step.dim, ir::DeviceGroups::over(mesh(), step.axes));
      note(x, byte_count(x) * double(k - 1));
      return x;
    }
  }
  TESSERA_CHECK(false, "an unknown reshard step");
  return x;
}

}  // namespace tessera::spmd
