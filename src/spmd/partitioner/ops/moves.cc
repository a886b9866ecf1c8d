// SPDX-License-Identifier: Apache-2.0
// Slice, pad, reverse, concatenate (row_moves.h).
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/row_moves.h"

namespace tessera::spmd {

namespace {

Placed slice_part(std::int64_t ways, std::int64_t size, std::int64_t start, std::int64_t stride,
                  std::int64_t out) {
  Placed p;
  const std::int64_t block = ceil_div(size, ways);
  p.part.rows = ceil_div(block, stride);
  const ByCoordinate first = ByCoordinate::quotients(ways, -start, block, stride);
  const ByCoordinate end = ByCoordinate::quotients(ways, block - start, block, stride)
                               .at_most(ceil_div(size - start, stride));
  p.skip = (first.times(stride) + ByCoordinate::line(ways, 0, -block)).plus(start);
  p.part.start = first;
  p.part.lo = first.at_least(0);
  p.part.hi = least_of(end, first.plus(p.part.rows)).at_most(out);
  return p;
}

Placed reverse_part(std::int64_t ways, std::int64_t size) {
  Placed p;
  const std::int64_t block = ceil_div(size, ways);
  p.part.rows = block;
  p.part.start = ByCoordinate::line(ways, size - block, -block);
  p.part.lo = p.part.start.at_least(0);
  p.part.hi = p.part.start.plus(block).at_least(0);
  return p;
}

/// Rows [first, first + count) of an array of `size` rows, at `offset` of the result.
Placed concat_part(std::int64_t ways, std::int64_t size, std::int64_t first, std::int64_t count,
                   std::int64_t offset, bool everywhere) {
  Placed p;
  const std::int64_t block = everywhere ? size : ceil_div(size, ways);
  p.part.rows = block;
  p.part.everywhere = everywhere;
  const ByCoordinate at = ByCoordinate::line(ways, -first, everywhere ? 0 : block);
  p.part.start = at.plus(offset);
  p.part.lo = at.at_least(0).plus(offset);
  p.part.hi = at.plus(block).at_most(count).plus(offset);
  return p;
}

/// The array that an op takes rows of, in one piece and along that dim only; null if it does more.
const ir::Instruction* sliced_along(const ir::Instruction& o, std::int64_t dim) {
  if (!o.is(ir::Opcode::slice)) return nullptr;
  const auto& attrs = o.get<ir::SliceAttrs>();
  for (std::int64_t stride : attrs.strides) {
    if (stride != 1) return nullptr;
  }
  const ir::Instruction& in = *o.operand(0);
  for (std::int64_t d = 0; d < in.shape.rank(); ++d) {
    if (d != dim && in.shape.dim(d) != o.shape.dim(d)) return nullptr;
  }
  return &in;
}

/// Takes every stride-th row of a shard, from a row that depends on the device.
ir::Instruction* take_strided(PartitionContext& p, ir::Instruction* x, std::int64_t dim,
                              const IndexList& axes, const Placed& placed, std::int64_t stride) {
  if (stride == 1) return x;
  const std::int64_t rows = placed.part.rows;
  x = p.emit.resized(x, dim, rows * stride);
  x = p.emit.dynamic_slice_dim(x, dim, p.emit.lookup(placed.skip, axes), (rows - 1) * stride + 1);
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims, strides(x->shape.dims.size(), 1);
  strides[std::size_t(dim)] = stride;
  return p.b().slice(x, starts, limits, strides);
}

/// Dims that a slice cuts.
Dims sliced_dims(const ir::Instruction& slice) {
  const Dims &in = slice.operand(0)->shape.dims, &out = slice.shape.dims;
  Dims changed;
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (in[d] != out[d]) changed.push_back(std::int64_t(d));
  }
  return changed;
}

std::int64_t stride_of(const ir::Instruction& slice, std::int64_t d) {
  const Dims& strides = slice.get<ir::SliceAttrs>().strides;
  return strides.empty() ? 1 : strides[std::size_t(d)];
}

TensorSharding requested_layout(PartitionContext& p, const ir::Instruction& slice) {
  return reduced(p.source.sharding(slice));
}

RowOp slice_of(PartitionContext& p, const ir::Instruction& source) {
  const Placer placer = [&source](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    return slice_part(ways, source.operand(0)->shape.dim(d),
                      source.get<ir::SliceAttrs>().starts[std::size_t(d)], stride_of(source, d),
                      source.shape.dim(d));
  };
  RowOp op{source, {{p.values.operand(*source.operand(0))}}, sliced_dims(source), placer};
  op.may_sum = true;
  return op;
}

/// Only concatenations along the dim that it cuts use it: they take the rows from where it does, so
/// that it needn't be anywhere.
bool is_taken_through(const PartitionContext& p, const ir::Instruction& slice) {
  const Dims changed = sliced_dims(slice);
  if (changed.size() != 1 || !sliced_along(slice, changed[0])) return false;
  const auto& users = p.source.users(slice);
  return !users.empty() && users.size() == p.source.user_count(slice) &&
         std::all_of(users.begin(), users.end(), [&](const ir::Instruction* user) {
           return user->is(ir::Opcode::concatenate) &&
                  user->get<ir::DimensionsAttrs>().dims.front() == changed[0];
         });
}

/// Slices of one array along one split dim, all to be split the same way (as of jnp.split): their
/// rows travel in the same permutes, in which each device then has something to send.
struct SliceGroup {
  std::vector<const ir::Instruction*> slices;
  TensorSharding layout;  ///< of the array and of the slices
  RowExchangePlan plan;
};

/// Those of which `source` is the first, if that is cheaper than one by one.
std::optional<SliceGroup> slice_group(PartitionContext& p, const ir::Instruction& source) {
  const Dims changed = sliced_dims(source);
  const TensorSharding layout = requested_layout(p, source);
  if (changed.size() != 1 || layout.shards(changed[0]) == 1) return std::nullopt;
  const std::int64_t dim = changed[0], ways = layout.shards(dim);
  const ir::Instruction& operand = *source.operand(0);
  constexpr std::size_t most = 64;
  std::vector<const ir::Instruction*> slices;
  for (const ir::Instruction* user : p.source.users(operand)) {
    if (!user->is(ir::Opcode::slice) || sliced_dims(*user) != changed ||
        stride_of(*user, dim) != 1 || is_taken_through(p, *user) ||
        !same_layout(requested_layout(p, *user), layout)) {
      continue;
    }
    // The first of them has tried.
    if (slices.empty() && user != &source) return std::nullopt;
    slices.push_back(user);
    if (slices.size() > most) return std::nullopt;
  }
  if (slices.size() < 2) return std::nullopt;
  Value* v = p.values.operand(operand);
  const std::int64_t size = operand.shape.dim(dim), in_block = ceil_div(size, ways);
  // In each device's block of the results, one slice's rows follow the other's.
  std::vector<RowRun> pieces;
  std::int64_t block = 0;
  double apart = 0, shared = 0;
  for (const ir::Instruction* s : slices) {
    const std::int64_t start = s->get<ir::SliceAttrs>().starts[std::size_t(dim)];
    const std::int64_t count = s->shape.dim(dim), out_block = ceil_div(count, ways);
    for (std::int64_t at = start; at < start + count;) {
      const std::int64_t c = at / in_block, t = (at - start) / out_block;
      const std::int64_t end =
          std::min({(c + 1) * in_block, start + (t + 1) * out_block, start + count});
      pieces.push_back(
          {c, t, at - c * in_block, block + at - start - t * out_block, end - at, 0, in_block});
      at = end;
    }
    block += out_block;
    const RowMove c = cheapest_move(p, slice_of(p, *s), requested_layout(p, *s));
    apart += c.price;
    if (s != slices.front()) shared += c.operands_price;
  }
  const RowExchangePlan plan = plan_pieces(pieces, ways, block);
  double together =
      p.values.reshard_price(v, layout) +
      p.module.rows_price(double(plan.rows_moved) * row_bytes(source.shape, layout, dim),
                          plan.permutes, layout.dims[std::size_t(dim)].axes);
  if (together >= apart - shared) return std::nullopt;
  return SliceGroup{std::move(slices), layout, plan};
}

void partition_together(PartitionContext& p, const ir::Instruction& source,
                        const SliceGroup& together) {
  const auto& [slices, layout, plan] = together;
  const std::int64_t dim = sliced_dims(source)[0];
  Value* v = p.values.operand(*source.operand(0));
  ir::Instruction* x = p.values.reshard(v, layout, operand_reason(source, 0))->local;
  Dims blocks;
  for (const ir::Instruction* s : slices)
    blocks.push_back(ceil_div(s->shape.dim(dim), layout.shards(dim)));
  const std::vector<ir::Instruction*> parts = p.rows.exchange_blocks(
      plan, {x}, dim, layout.dims[std::size_t(dim)].axes, nullptr, blocks, rows_of(source, layout));
  for (std::size_t i = 0; i < slices.size(); ++i) {
    p.values.define(*slices[i], p.values.make(parts[i], layout, slices[i]->shape));
  }
}

}  // namespace

void place_slice(PartitionContext& p, const ir::Instruction& source) {
  if (p.values.is_defined(source) || place_cut_of_select_and_scatter(p, source)) return;
  if (is_taken_through(p, source)) return;
  if (const auto together = slice_group(p, source)) {
    for (const ir::Instruction* s : together->slices) {
      const ShardBuilder::OpScope scope(p.emit, *s);
      place(p, *s, {{together->layout}, {together->layout}});
    }
    return;
  }
  const TensorSharding requested = requested_layout(p, source);
  const RowMove c = cheapest_move(p, slice_of(p, source), requested);
  place(p, source, {{c.layout}, {c.summed.empty() ? c.layout : requested}});
}

void partition_slice(PartitionContext& p, const ir::Instruction& source) {
  if (p.values.is_defined(source) || partition_cut_of_select_and_scatter(p, source)) return;
  if (is_taken_through(p, source)) return;
  if (const auto together = slice_group(p, source)) {
    return partition_together(p, source, *together);
  }
  const auto& attrs = source.get<ir::SliceAttrs>();
  const Dims& in = source.operand(0)->shape.dims;
  const RowOp op = slice_of(p, source);
  const TensorSharding requested = requested_layout(p, source);
  const RowMove c = cheapest_move(p, op, requested);
  ir::Instruction* x = p.values.operand_in(source, 0, c.layout)->local;
  const Dims zeros(in.size(), 0), ones(in.size(), 1);
  ir::SliceAttrs local{zeros, x->shape.dims, ones};
  for (std::int64_t d : op.changed) {
    if (c.layout.shards(d) > 1) continue;
    const std::size_t i = std::size_t(d);
    local.starts[i] = attrs.starts[i];
    local.limits[i] = attrs.limits[i];
    local.strides[i] = stride_of(source, d);
  }
  if (local.limits != x->shape.dims || local.starts != zeros || local.strides != ones) {
    x = p.b().slice(x, local.starts, local.limits, local.strides);
  }
  for (std::int64_t d : op.changed) {
    const std::int64_t ways = c.layout.shards(d);
    if (ways == 1) continue;
    const IndexList& axes = c.layout.dims[std::size_t(d)].axes;
    Placed placed = op.placer(op.from[0], d, ways, false);
    x = take_strided(p, x, d, axes, placed, stride_of(source, d));
    if (contains(c.summed, d)) {
      RowExchangePlan plan = deposit_plan(placed.part, source.shape.dim(d));
      x = p.rows.exchange(plan, {x}, d, axes, p.emit.constant_scalar(x->shape.dtype, 0),
                          rows_of(source, c.layout));
    } else {
      x = exchanged(p, op, c, d, {x}, nullptr);
    }
  }
  if (c.summed.empty()) return p.values.define(source, p.values.make(x, c.layout, source.shape));
  define_sum_of_bits(p, source, x, summed_layout(c), requested);
}

namespace {

Dims padded_by(const ir::Instruction& pad) {
  const auto& attrs = pad.get<ir::PadAttrs>();
  Dims changed;
  for (std::size_t d = 0; d < attrs.dims.size(); ++d) {
    if (!(attrs.dims[d] == ir::PadDim{})) changed.push_back(std::int64_t(d));
  }
  return changed;
}

RowOp pad_of(PartitionContext& p, const ir::Instruction& pad) {
  const Placer placer = [&pad](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    const std::size_t i = std::size_t(d);
    const ir::PadDim& by = pad.get<ir::PadAttrs>().dims[i];
    return Placed{
        spread_part(ways, pad.operand(0)->shape.dims[i], by.low, by.interior, pad.shape.dims[i]),
        {}};
  };
  return {pad, {{p.values.operand(*pad.operand(0))}}, padded_by(pad), placer};
}

RowOp reverse_of(PartitionContext& p, const ir::Instruction& reverse) {
  const Placer placer = [&reverse](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    return reverse_part(ways, reverse.shape.dim(d));
  };
  return {reverse,
          {{p.values.operand(*reverse.operand(0))}},
          reverse.get<ir::DimensionsAttrs>().dims,
          placer};
}

}  // namespace

OpPlan plan_pad(PartitionContext& p, const ir::Instruction& source) {
  const TensorSharding requested = reduced(p.source.sharding(source)),
                       fill = p.source.replicated(0);
  Value* v = p.values.operand(*source.operand(0));
  if (v->shape.element_count() == 0) return {{v->sharding, fill}, {requested}};
  const RowMove c = cheapest_move(p, pad_of(p, source), requested);
  return {{c.layout, fill}, {c.layout}};
}

void partition_pad(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::PadAttrs>();
  const Dims& in = source.operand(0)->shape.dims;
  const Value* fill = p.values.operand_in(source, 1, p.source.replicated(0));
  const RowOp op = pad_of(p, source);
  const RowMove c = planned_move(p, op);
  if (source.operand(0)->shape.element_count() == 0) {
    // Nothing but the filling.
    ir::Instruction* x = p.b().splat(fill->local, c.layout.shard_dims(source.shape.dims));
    return p.values.define(source, p.values.make(x, c.layout, source.shape));
  }
  ir::Instruction* x = p.values.operand_in(source, 0, c.layout)->local;
  std::vector<ir::PadDim> local(in.size());
  bool pads = false;
  for (std::int64_t d : op.changed) {
    const std::size_t i = std::size_t(d);
    if (c.layout.shards(d) == 1) {
      local[i] = attrs.dims[i];
      pads = true;
      continue;
    }
    const ir::PadDim& by = attrs.dims[i];
    const std::int64_t ways = c.layout.shards(d);
    if (by.low == 0 && by.interior == 0 &&
        ceil_div(in[i], ways) == ceil_div(source.shape.dims[i], ways)) {
      // Within the shards' own padding.
      if (by.high > 0) x = p.emit.mask_padding(x, c.layout, in, {d}, fill->local);
      continue;
    }
    x = p.emit.pad_dim(x, d, {0, 0, by.interior}, fill->local);
    x = exchanged(p, op, c, d, {x}, fill->local);
  }
  if (pads) x = p.b().pad(x, fill->local, local);
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

OpPlan plan_reverse(PartitionContext& p, const ir::Instruction& source) {
  const RowMove c = cheapest_move(p, reverse_of(p, source), reduced(p.source.sharding(source)));
  return {{c.layout}, {c.layout}};
}

void partition_reverse(PartitionContext& p, const ir::Instruction& source) {
  const RowOp op = reverse_of(p, source);
  const RowMove c = planned_move(p, op);
  ir::Instruction* x = p.values.operand_in(source, 0, c.layout)->local;
  x = p.emit.local_op(source, {x}, x->shape);
  for (std::int64_t d : op.changed) {
    if (c.layout.shards(d) > 1) x = exchanged(p, op, c, d, {x}, nullptr);
  }
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

namespace {

RowOp concatenation_of(PartitionContext& p, const ir::Instruction& source) {
  const std::int64_t dim = source.get<ir::DimensionsAttrs>().dims.front();
  std::vector<RowOrigin> from;
  std::vector<const ir::Instruction*> arrays;
  std::int64_t at = 0;
  for (const ir::Instruction* o : source.operands()) {
    RowOrigin s;
    s.count = o->shape.dim(dim);
    s.offset = at;
    at += s.count;
    // Rows are taken from where a slice takes them: a roll is one step, not two.
    if (const ir::Instruction* inner = sliced_along(*o, dim)) {
      s.first = o->get<ir::SliceAttrs>().starts[std::size_t(dim)];
      o = inner;
    }
    s.array = std::size_t(std::find(arrays.begin(), arrays.end(), o) - arrays.begin());
    if (s.array == arrays.size()) arrays.push_back(o);
    s.value = p.values.operand(*o);
    from.push_back(s);
  }
  const Placer placer = [](const RowOrigin& s, std::int64_t d, std::int64_t ways, bool everywhere) {
    return concat_part(ways, s.value->shape.dim(d), s.first, s.count, s.offset, everywhere);
  };
  return {source, std::move(from), {dim}, placer};
}

}  // namespace

void place_concatenate(PartitionContext& p, const ir::Instruction& source) {
  const RowOp op = concatenation_of(p, source);
  const RowMove c = cheapest_move(p, op, reduced(p.source.sharding(source)));
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < op.from.size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    const TensorSharding layout = array_layout(op, c, op.from[i].array);
    ir::Instruction* x =
        p.values.reshard(op.from[i].value, layout, "operand of " + op_label(source))->local;
    if (sliced_along(o, op.changed[0])) {
      // A slice of its own, which the device stage takes rows through.
      const ShardBuilder::OpScope scope(p.emit, o);
      x = p.emit.local_op(o, {x}, o.shape);
      p.values.annotate(x, {layout});
    }
    operands.push_back(x);
  }
  place_on(p, source, operands, {{}, {c.layout}});
}

void partition_concatenate(PartitionContext& p, const ir::Instruction& source) {
  const RowOp op = concatenation_of(p, source);
  const RowMove c = planned_move(p, op);
  const std::int64_t dim = op.changed[0];
  std::vector<ir::Instruction*> locals;  // of the distinct arrays
  for (const RowOrigin& s : op.from) {
    if (s.array < locals.size()) continue;
    const TensorSharding layout = array_layout(op, c, s.array);
    locals.push_back(p.values.reshard(s.value, layout, "operand of " + op_label(source))->local);
  }
  ir::Instruction* x;
  if (c.layout.shards(dim) == 1) {
    std::vector<ir::Instruction*> parts;
    for (const RowOrigin& s : op.from) {
      parts.push_back(p.emit.slice_dim(locals[s.array], dim, s.first, s.first + s.count));
    }
    x = p.emit.local_op(source, parts, local_shape(source.shape, c.layout));
  } else {
    x = exchanged(p, op, c, dim, locals, nullptr);
  }
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

}  // namespace tessera::spmd
