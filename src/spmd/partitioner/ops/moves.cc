// SPDX-License-Identifier: Apache-2.0
// Slice, pad, reverse, concatenate (row_moves.h).
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/row_moves.h"

namespace tessera::spmd {

namespace {

/// Rounded up, also where it is negative.
std::int64_t up_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

Placed slice_part(std::int64_t ways, std::int64_t size, std::int64_t start, std::int64_t stride,
                  std::int64_t out) {
  Placed p;
  const std::int64_t block = ceil_div(size, ways);
  p.part.rows = ceil_div(block, stride);
  for (std::int64_t c = 0; c < ways; ++c) {
    const std::int64_t first = up_div(c * block - start, stride);
    p.skip.push_back(start + stride * first - c * block);
    const std::int64_t end = up_div(std::min((c + 1) * block, size) - start, stride);
    p.part.start.push_back(first);
    p.part.lo.push_back(std::max<std::int64_t>(first, 0));
    p.part.hi.push_back(std::min({end, out, first + p.part.rows}));
  }
  return p;
}

Placed reverse_part(std::int64_t ways, std::int64_t size) {
  Placed p;
  const std::int64_t block = ceil_div(size, ways);
  p.part.rows = block;
  for (std::int64_t c = 0; c < ways; ++c) {
    p.part.start.push_back(size - (c + 1) * block);
    p.part.lo.push_back(std::max<std::int64_t>(size - (c + 1) * block, 0));
    p.part.hi.push_back(std::max<std::int64_t>(size - c * block, 0));
  }
  return p;
}

/// Rows [first, first + count) of an array of `size` rows, at `offset` of the result.
Placed concat_part(std::int64_t ways, std::int64_t size, std::int64_t first, std::int64_t count,
                   std::int64_t offset, bool everywhere) {
  Placed p;
  const std::int64_t block = everywhere ? size : ceil_div(size, ways);
  p.part.rows = block;
  p.part.everywhere = everywhere;
  for (std::int64_t c = 0; c < ways; ++c) {
    const std::int64_t at = everywhere ? 0 : c * block;
    p.part.start.push_back(offset - first + at);
    p.part.lo.push_back(offset + std::max<std::int64_t>(at - first, 0));
    p.part.hi.push_back(offset + std::min(at + block - first, count));
  }
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

/// A plan in which each device puts its rows where they belong in the full result.
RowExchangePlan deposit_plan(const RowSource& part, std::int64_t ways, std::int64_t size) {
  RowExchangePlan plan;
  plan.block = size;
  RowPermute m;
  m.rows = 1;
  for (std::size_t c = 0; c < std::size_t(ways); ++c) {
    m.rows = std::max(m.rows, part.hi[c] - std::max<std::int64_t>(part.lo[c], 0));
  }
  m.array.assign(std::size_t(ways), 0);
  m.target.assign(std::size_t(ways), -1);
  for (std::size_t c = 0; c < std::size_t(ways); ++c) {
    m.hi.push_back(std::max<std::int64_t>(part.hi[c], 0));
    m.lo.push_back(std::clamp<std::int64_t>(part.lo[c], 0, m.hi.back()));
    m.cut.push_back(std::clamp<std::int64_t>(m.lo.back() - part.start[c], 0, part.rows - m.rows));
    m.place.push_back(part.start[c] + m.cut.back());
  }
  plan.moves.push_back(std::move(m));
  return plan;
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

/// How a slice is to be sharded. What is taken out of a dim that is dropped then (as by `a[:, 5]`)
/// is requested wherever the rest is: split it would be with its owner, and be gathered from there.
TensorSharding requested_layout(PartitionContext& p, const ir::Instruction& slice) {
  TensorSharding s = reduced(p.source.sharding(slice));
  const auto users = p.source.users(slice);
  const bool dropped =
      !users.empty() && std::all_of(users.begin(), users.end(), [](const ir::Instruction* user) {
        return user->is(ir::Opcode::reshape);
      });
  for (const std::int64_t d : sliced_dims(slice)) {
    if (dropped && slice.shape.dim(d) == 1) s.dims[std::size_t(d)].axes.clear();
  }
  return s;
}

RowMove choose_slice(PartitionContext& p, const ir::Instruction& source, const Placer& placer,
                     const std::vector<RowOrigin>& from) {
  return cheapest_move(p, source, requested_layout(p, source), from, sliced_dims(source), placer,
                       false, true);
}

Placer slice_placer(const ir::Instruction& source) {
  return [&source](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    return slice_part(ways, source.operand(0)->shape.dim(d),
                      source.get<ir::SliceAttrs>().starts[std::size_t(d)], stride_of(source, d),
                      source.shape.dim(d));
  };
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
struct SlicesTogether {
  std::vector<const ir::Instruction*> slices;
  TensorSharding layout;  ///< of the array and of the slices
  RowExchangePlan plan;
};

/// Those of which `source` is the first, if that is cheaper than one by one.
std::optional<SlicesTogether> slices_together(PartitionContext& p, const ir::Instruction& source) {
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
    const RowMove c = choose_slice(p, *s, slice_placer(*s), {{v}});
    apart += c.price;
    if (s != slices.front()) shared += c.operands_price;
  }
  const RowExchangePlan plan = plan_pieces(pieces, ways, block);
  double together =
      p.values.reshard_price(v, layout) +
      p.module.rows_price(double(plan.rows_moved) * row_bytes(source.shape, layout, dim),
                          plan.permutes, layout.dims[std::size_t(dim)].axes);
  if (together >= apart - shared) return std::nullopt;
  return SlicesTogether{std::move(slices), layout, plan};
}

void partition_together(PartitionContext& p, const ir::Instruction& source,
                        const SlicesTogether& together) {
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
  if (const auto together = slices_together(p, source)) {
    for (const ir::Instruction* s : together->slices) {
      const ShardBuilder::OpScope scope(p.emit, *s);
      place(p, *s, {{together->layout}, {together->layout}});
    }
    return;
  }
  const RowMove c =
      choose_slice(p, source, slice_placer(source), {{p.values.operand(*source.operand(0))}});
  place(p, source, {{c.layout}, {c.summed.empty() ? c.layout : requested_layout(p, source)}});
}

void partition_slice(PartitionContext& p, const ir::Instruction& source) {
  if (p.values.is_defined(source) || partition_cut_of_select_and_scatter(p, source)) return;
  if (is_taken_through(p, source)) return;
  if (const auto together = slices_together(p, source)) {
    return partition_together(p, source, *together);
  }
  const auto& attrs = source.get<ir::SliceAttrs>();
  const Dims& in = source.operand(0)->shape.dims;
  const Dims& out = source.shape.dims;
  const Dims changed = sliced_dims(source);
  auto stride = [&](std::int64_t d) { return stride_of(source, d); };
  const Placer placer = slice_placer(source);
  const std::vector<RowOrigin> from{{p.values.operand(*source.operand(0))}};
  const RowMove c = choose_slice(p, source, placer, from);
  ir::Instruction* x = p.values.reshard(from[0].value, c.layout, operand_reason(source, 0))->local;
  const Dims zeros(in.size(), 0), ones(in.size(), 1);
  ir::SliceAttrs local{zeros, x->shape.dims, ones};
  for (std::int64_t d : changed) {
    if (c.layout.shards(d) > 1) continue;
    const std::size_t i = std::size_t(d);
    local.starts[i] = attrs.starts[i];
    local.limits[i] = attrs.limits[i];
    local.strides[i] = stride(d);
  }
  if (local.limits != x->shape.dims || local.starts != zeros || local.strides != ones) {
    x = p.b().slice(x, local.starts, local.limits, local.strides);
  }
  const DType dtype = source.shape.dtype;
  for (std::int64_t d : changed) {
    const std::int64_t ways = c.layout.shards(d);
    if (ways == 1) continue;
    const IndexList& axes = c.layout.dims[std::size_t(d)].axes;
    Placed placed = placer(from[0], d, ways, false);
    x = take_strided(p, x, d, axes, placed, stride(d));
    if (contains(c.summed, d)) {
      RowExchangePlan plan = deposit_plan(placed.part, ways, out[std::size_t(d)]);
      x = p.rows.exchange(plan, {x}, d, axes, p.emit.constant_scalar(x->shape.dtype, 0),
                          rows_of(source, c.layout));
    } else {
      x = p.rows.exchange(route_for(source, c, d, placer, from, false), {x}, d, axes, nullptr,
                          rows_of(source, c.layout));
    }
  }
  if (c.summed.empty()) return p.values.define(source, p.values.make(x, c.layout, source.shape));
  x = as_bits(p.b(), x);
  Value* sum = p.values.make(x, summed_layout(c), Shape(x->shape.dtype, out));
  sum = p.values.reshard(sum, requested_layout(p, source), "result of " + op_label(source));
  x = from_bits(p.b(), sum->local, dtype);
  p.values.define(source, p.values.make(x, sum->sharding, source.shape));
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

Placer pad_placer(const ir::Instruction& pad) {
  return [&pad](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    const std::size_t i = std::size_t(d);
    const ir::PadDim& by = pad.get<ir::PadAttrs>().dims[i];
    return Placed{
        spread_part(ways, pad.operand(0)->shape.dims[i], by.low, by.interior, pad.shape.dims[i]),
        {}};
  };
}

Placer reverse_placer(const ir::Instruction& reverse) {
  return [&reverse](const RowOrigin&, std::int64_t d, std::int64_t ways, bool) {
    return reverse_part(ways, reverse.shape.dim(d));
  };
}

}  // namespace

OpPlan plan_pad(PartitionContext& p, const ir::Instruction& source) {
  const TensorSharding requested = reduced(p.source.sharding(source)),
                       fill = p.source.replicated(0);
  Value* v = p.values.operand(*source.operand(0));
  if (v->shape.element_count() == 0) return {{v->sharding, fill}, {requested}};
  const RowMove c = cheapest_move(p, source, requested, {{v}}, padded_by(source),
                                  pad_placer(source), false, false);
  return {{c.layout, fill}, {c.layout}};
}

void partition_pad(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::PadAttrs>();
  const Dims& in = source.operand(0)->shape.dims;
  const Dims& out = source.shape.dims;
  const Dims changed = padded_by(source);
  const Placer placer = pad_placer(source);
  Value* fill = p.values.declared(*source.operand(1));
  fill = p.values.reshard(fill, p.source.replicated(0), operand_reason(source, 1));
  if (source.operand(0)->shape.element_count() == 0) {
    // Nothing but the filling.
    const TensorSharding requested = reduced(p.source.sharding(source));
    ir::Instruction* x = p.b().splat(fill->local, requested.shard_dims(out));
    return p.values.define(source, p.values.make(x, requested, source.shape));
  }
  const std::vector<RowOrigin> from{{p.values.operand(*source.operand(0))}};
  const RowMove c = cheapest_move(p, source, reduced(p.source.sharding(source)), from, changed,
                                  placer, false, false);
  ir::Instruction* x = p.values.reshard(from[0].value, c.layout, operand_reason(source, 0))->local;
  std::vector<ir::PadDim> local(in.size());
  bool pads = false;
  for (std::int64_t d : changed) {
    const std::size_t i = std::size_t(d);
    if (c.layout.shards(d) == 1) {
      local[i] = attrs.dims[i];
      pads = true;
      continue;
    }
    if (attrs.dims[i].interior > 0) {
      std::vector<ir::PadDim> spread(in.size());
      spread[i].interior = attrs.dims[i].interior;
      x = p.b().pad(x, fill->local, spread);
    }
    x = p.rows.exchange(route_for(source, c, d, placer, from, false), {x}, d, c.layout.dims[i].axes,
                        fill->local, rows_of(source, c.layout));
  }
  if (pads) x = p.b().pad(x, fill->local, local);
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

OpPlan plan_reverse(PartitionContext& p, const ir::Instruction& source) {
  const RowMove c = cheapest_move(
      p, source, reduced(p.source.sharding(source)), {{p.values.operand(*source.operand(0))}},
      source.get<ir::DimensionsAttrs>().dims, reverse_placer(source), true, false);
  return {{c.layout}, {c.layout}};
}

void partition_reverse(PartitionContext& p, const ir::Instruction& source) {
  const Dims& dims = source.get<ir::DimensionsAttrs>().dims;
  const Placer placer = reverse_placer(source);
  const std::vector<RowOrigin> from{{p.values.operand(*source.operand(0))}};
  const RowMove c =
      cheapest_move(p, source, reduced(p.source.sharding(source)), from, dims, placer, true, false);
  ir::Instruction* x = p.values.reshard(from[0].value, c.layout, operand_reason(source, 0))->local;
  x = p.emit.local_op(source, {x}, x->shape);
  for (std::int64_t d : dims) {
    if (c.layout.shards(d) == 1) continue;
    x = p.rows.exchange(route_for(source, c, d, placer, from, true), {x}, d,
                        c.layout.dims[std::size_t(d)].axes, nullptr, rows_of(source, c.layout));
  }
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

namespace {

/// How the rows of several arrays come together.
struct Concatenation {
  std::int64_t dim = 0;
  std::vector<RowOrigin> from;
  std::vector<Value*> values;  ///< distinct arrays
  RowMove way;
};

Placer concatenate_placer() {
  return [](const RowOrigin& s, std::int64_t d, std::int64_t ways, bool everywhere) {
    return concat_part(ways, s.value->shape.dim(d), s.first, s.count, s.offset, everywhere);
  };
}

Concatenation concatenation_of(PartitionContext& p, const ir::Instruction& source) {
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
    from.push_back(s);
  }
  std::vector<Value*> values;
  for (const ir::Instruction* o : arrays) values.push_back(p.values.operand(*o));
  for (RowOrigin& s : from) s.value = values[s.array];
  RowMove way = cheapest_move(p, source, reduced(p.source.sharding(source)), from, {dim},
                              concatenate_placer(), false, false);
  return {dim, std::move(from), std::move(values), std::move(way)};
}

}  // namespace

void place_concatenate(PartitionContext& p, const ir::Instruction& source) {
  const auto [dim, from, values, c] = concatenation_of(p, source);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    const TensorSharding layout = array_layout(c, from[i].array, {dim});
    ir::Instruction* x =
        p.values.reshard(from[i].value, layout, "operand of " + op_label(source))->local;
    if (sliced_along(o, dim)) {
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
  const auto [dim, from, values, c] = concatenation_of(p, source);
  std::vector<ir::Instruction*> locals;
  for (std::size_t i = 0; i < values.size(); ++i) {
    locals.push_back(
        p.values.reshard(values[i], array_layout(c, i, {dim}), "operand of " + op_label(source))
            ->local);
  }
  ir::Instruction* x;
  if (c.layout.shards(dim) == 1) {
    std::vector<ir::Instruction*> parts;
    for (const RowOrigin& s : from) {
      ir::Instruction* part = locals[s.array];
      if (s.count != part->shape.dim(dim)) {
        Dims starts(part->shape.dims.size(), 0), limits = part->shape.dims;
        starts[std::size_t(dim)] = s.first;
        limits[std::size_t(dim)] = s.first + s.count;
        part = p.b().slice(part, starts, limits);
      }
      parts.push_back(part);
    }
    x = p.emit.local_op(source, parts, local_shape(source.shape, c.layout));
  } else {
    x = p.rows.exchange(route_for(source, c, dim, concatenate_placer(), from, false), locals, dim,
                        c.layout.dims[std::size_t(dim)].axes, nullptr, rows_of(source, c.layout));
  }
  p.values.define(source, p.values.make(x, c.layout, source.shape));
}

}  // namespace tessera::spmd
