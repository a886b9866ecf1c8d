// SPDX-License-Identifier: Apache-2.0
// Dynamic slices and updates. Indices are clamped by the global sizes first and made local then;
// along a split dim each device reads or writes only what it owns.
#include <algorithm>
#include <optional>

#include "src/spmd/partitioner/families.h"

// Compiled apart: names below stand in other sources of this folder too.
namespace tessera::spmd {

namespace {

using ir::Opcode;

/// A start index clamped to [0, highest], as s32.
ir::Instruction* clamped(PartitionContext& p, ir::Instruction* at, std::int64_t highest) {
  ir::Builder& b = p.b();
  if (byte_size(at->shape.dtype) < 4) at = b.convert(at, s32);
  const DType dtype = at->shape.dtype;
  at = b.emit(Opcode::clamp, {p.emit.constant_scalar(dtype, 0), at,
                              p.emit.constant_scalar(dtype, double(highest))});
  return b.convert(at, s32);
}

Dims changed_dims(const Dims& whole, const Dims& part) {
  Dims out;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] != part[d]) out.push_back(std::int64_t(d));
  }
  return out;
}

IndexList axes_of(const TensorSharding& s, const Dims& dims) {
  IndexList out;
  for (std::int64_t d : dims) {
    const IndexList& a = s.dims[std::size_t(d)].axes;
    out.insert(out.end(), a.begin(), a.end());
  }
  return out;
}

/// The ends' shardings, each also with the axes of `changed` on another dim or dropped.
std::vector<TensorSharding> layouts(const PartitionContext& p, const Dims& global,
                                    const Dims& changed, const std::vector<TensorSharding>& ends) {
  std::vector<TensorSharding> out;
  auto add = [&](const TensorSharding& s) {
    for (const TensorSharding& o : out) {
      if (same_layout(o, s)) return;
    }
    out.push_back(s);
  };
  for (const TensorSharding& e : ends) {
    TensorSharding end = reduced(e);
    add(end);
    IndexList axes = axes_of(end, changed);
    if (axes.empty()) continue;
    TensorSharding rest = without_dims(end, changed);
    for (std::size_t d = 0; d < global.size(); ++d) {
      if (contains(changed, std::int64_t(d))) continue;
      if (global[d] % (end.shards(std::int64_t(d)) * p.emit.ways(axes)) != 0) continue;
      TensorSharding moved = rest;
      moved.dims[d].axes.insert(moved.dims[d].axes.end(), axes.begin(), axes.end());
      add(moved);
    }
    add(rest);
  }
  return out;
}

/// 0 <= at < size
ir::Instruction* in_range(PartitionContext& p, ir::Instruction* at, std::int64_t size) {
  ir::Builder& b = p.b();
  return b.binary(Opcode::and_, b.compare(ir::Direction::ge, at, p.emit.index(0)),
                  b.compare(ir::Direction::lt, at, p.emit.index(size)));
}

ir::Instruction* scalar_clamp(PartitionContext& p, ir::Instruction* at, std::int64_t high) {
  return p.b().emit(Opcode::clamp, {p.emit.index(0), at, p.emit.index(high)});
}

std::vector<ir::Instruction*> start_operands(PartitionContext& p, const ir::Instruction& source,
                                             std::size_t first) {
  std::vector<ir::Instruction*> out;
  for (std::size_t i = first; i < source.operands().size(); ++i) {
    Value* v = p.values.declared(*source.operand(i));
    out.push_back(p.values.reshard(v, p.source.replicated(0), operand_reason(source, i))->local);
  }
  return out;
}

/// A start index that is known, clamped to [0, highest].
std::optional<std::int64_t> known_start(const ir::Instruction& at, std::int64_t highest) {
  if (!at.is(Opcode::constant) || at.get<ir::ConstantAttrs>().elided) return std::nullopt;
  const Literal& l = at.get<ir::ConstantAttrs>().value;
  std::int64_t v = 0;
  if (l.dtype() == DType::s32) {
    v = l.data<std::int32_t>()[0];
  } else if (l.dtype() == DType::s64) {
    v = l.data<std::int64_t>()[0];
  } else {
    return std::nullopt;
  }
  return std::clamp<std::int64_t>(v, 0, highest);
}

/// Rows [start, start + count) are those of the update, which is split as the array is.
RowExchangePlan update_route(std::int64_t ways, std::int64_t size, std::int64_t start,
                             std::int64_t count) {
  const std::int64_t block = ceil_div(size, ways);
  RowSource before = block_part(ways, size, block), after = before;
  for (std::int64_t& hi : before.hi) hi = std::min(hi, start);
  for (std::int64_t& lo : after.lo) lo = std::max(lo, start + count);
  RowSource update = block_part(ways, count, ceil_div(count, ways));
  update.array = 1;
  for (Dims* list : {&update.start, &update.lo, &update.hi}) {
    for (std::int64_t& i : *list) i += start;
  }
  return plan_row_exchange({before, after, update}, ways, size, block);
}

}  // namespace

void partition_dynamic_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims& in = source.operand(0)->shape.dims;
  const Dims& sizes = source.get<ir::DynamicSliceAttrs>().sizes;
  const Dims changed = changed_dims(in, sizes);
  const TensorSharding wanted = reduced(p.source.sharding(source));
  Value* v = p.values.operand(*source.operand(0));
  std::optional<double> least;
  TensorSharding layout, result;
  for (const TensorSharding& s : layouts(p, in, changed, {v->sharding, wanted})) {
    TensorSharding out = without_dims(s, changed);
    out.unreduced = axes_of(s, changed);
    double shards = 1;
    for (std::int64_t n : out.shards()) shards *= double(n);
    double price = p.values.reshard_price(v, s) + p.module.reshard_cost(out, wanted, source.shape) +
                   double(source.shape.element_count()) / shards * p.module.cost().bytes_per_flop;
    if (least && price >= *least) continue;
    least = price;
    layout = s;
    result = out;
  }
  ir::Builder& b = p.b();
  std::vector<ir::Instruction*> starts = start_operands(p, source, 1);
  ir::Instruction* x = p.values.reshard(v, layout, operand_reason(source, 0))->local;
  if (result.unreduced.empty()) {
    std::vector<ir::Instruction*> operands{x};
    operands.insert(operands.end(), starts.begin(), starts.end());
    const Shape local = local_shape(source.shape, result);
    x = p.emit.local_op(source, operands, local, ir::DynamicSliceAttrs{local.dims});
    return p.values.define(source, p.values.make(x, result, source.shape));
  }
  for (const TensorSharding& s : layouts(p, in, changed, {v->sharding, wanted})) {
    p.alternatives.suggest(*source.operand(0), s, double(source.shape.byte_count()));
  }
  // Owners give their rows, the others zeros; the sum is the slice, bit for bit.
  ir::Instruction* zero = p.emit.constant_scalar(x->shape.dtype, 0);
  ir::Instruction* mine = nullptr;
  std::vector<ir::PadDim> padding(in.size());
  Dims local_sizes = x->shape.dims;
  for (std::int64_t d : changed) {
    const std::size_t i = std::size_t(d);
    const std::int64_t block = x->shape.dims[i];
    local_sizes[i] = sizes[i];
    starts[i] = clamped(p, starts[i], in[i] - sizes[i]);
    if (layout.shards(d) == 1) continue;
    ir::Instruction* at =
        b.binary(Opcode::subtract, starts[i], p.emit.shard_offset(layout, d, in[i]));
    if (sizes[i] == 1) {
      ir::Instruction* owns = in_range(p, at, block);
      mine = mine ? b.binary(Opcode::and_, mine, owns) : owns;
      starts[i] = scalar_clamp(p, at, block - 1);
    } else {
      padding[i] = {sizes[i], sizes[i], 0};
      starts[i] =
          scalar_clamp(p, b.binary(Opcode::add, at, p.emit.index(sizes[i])), block + sizes[i]);
    }
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!contains(changed, std::int64_t(i))) starts[i] = p.emit.index(0);
  }
  if (padding != std::vector<ir::PadDim>(in.size())) x = b.pad(x, zero, padding);
  x = b.dynamic_slice(x, starts, local_sizes);
  if (mine) x = b.select(b.splat(mine, local_sizes), x, b.splat(zero, local_sizes));
  x = as_bits(b, x);
  Value* sum = p.values.make(x, result, Shape(x->shape.dtype, source.shape.dims));
  sum = p.values.reshard(sum, wanted, "result of " + op_label(source));
  x = from_bits(b, sum->local, source.shape.dtype);
  p.values.define(source, p.values.make(x, sum->sharding, source.shape));
}

void partition_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims& in = source.shape.dims;
  const Dims& sizes = source.operand(1)->shape.dims;
  const Dims changed = changed_dims(in, sizes);
  const TensorSharding wanted = reduced(p.source.sharding(source));
  const std::int64_t width = std::int64_t(byte_size(source.shape.dtype));
  Value *v = p.values.operand(*source.operand(0)), *u = p.values.operand(*source.operand(1));
  std::optional<std::int64_t> start;  // if it is known, along the only dim
  if (changed.size() == 1 && source.shape.element_count() > 0) {
    const std::size_t d = std::size_t(changed[0]);
    start = known_start(*source.operand(2 + d), in[d] - sizes[d]);
  }
  std::optional<double> least;
  std::optional<RowExchangePlan> exchange;
  TensorSharding layout;
  for (const TensorSharding& s : layouts(p, in, changed, {wanted, v->sharding})) {
    double shards = 1;
    for (std::int64_t n : s.shards()) shards *= double(n);
    double price = p.values.reshard_price(v, s) +
                   p.values.reshard_price(u, without_dims(s, changed)) +
                   p.module.reshard_cost(s, wanted, source.shape) +
                   double(source.shape.element_count()) / shards * p.module.cost().bytes_per_flop;
    if (!least || price < *least) {
      least = price;
      layout = s;
      exchange.reset();
    }
    if (!start || s.shards(changed[0]) == 1) continue;
    // Where it is known who owns what, only that travels.
    const std::size_t d = std::size_t(changed[0]);
    RowExchangePlan plan = update_route(s.shards(changed[0]), in[d], *start, sizes[d]);
    double row = double(width);
    const Dims local = s.shard_dims(in);
    for (std::size_t i = 0; i < local.size(); ++i) row *= i == d ? 1 : double(local[i]);
    price += p.values.reshard_price(u, s) - p.values.reshard_price(u, without_dims(s, changed)) +
             row * double(plan.rows_moved) + p.module.cost().transfer.latency_bytes * plan.permutes;
    if (price >= *least) continue;
    least = price;
    layout = s;
    exchange = std::move(plan);
  }
  if (p.values.reshard_price(v, layout) + p.values.reshard_price(u, without_dims(layout, changed)) >
      0) {
    for (const TensorSharding& s : layouts(p, in, changed, {v->sharding, wanted, u->sharding})) {
      p.alternatives.suggest(*source.operand(0), s, double(source.operand(1)->shape.byte_count()));
    }
  }
  ir::Builder& b = p.b();
  if (exchange) {
    ir::Instruction* x = p.values.reshard(v, layout, operand_reason(source, 0))->local;
    ir::Instruction* rows = p.values.reshard(u, layout, operand_reason(source, 1))->local;
    x = p.rows.exchange(*exchange, {x, rows}, changed[0], layout.dims[std::size_t(changed[0])].axes,
                        nullptr, ReshardReason::within(layout, "rows of " + op_label(source)));
    return p.values.define(source, p.values.make(x, layout, source.shape));
  }
  std::vector<ir::Instruction*> starts = start_operands(p, source, 2);
  ir::Instruction* x = p.values.reshard(v, layout, operand_reason(source, 0))->local;
  ir::Instruction* update =
      p.values.reshard(u, without_dims(layout, changed), operand_reason(source, 1))->local;
  ir::Instruction* mine = nullptr;
  std::vector<ir::PadDim> padding(in.size());
  Dims begin(in.size(), 0), end = x->shape.dims;
  bool pads = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int64_t d = std::int64_t(i), block = x->shape.dims[i];
    if (!contains(changed, d)) {
      starts[i] = p.emit.index(0);
      continue;
    }
    starts[i] = clamped(p, starts[i], in[i] - sizes[i]);
    if (layout.shards(d) == 1) continue;
    ir::Instruction* at =
        b.binary(Opcode::subtract, starts[i], p.emit.shard_offset(layout, d, in[i]));
    if (sizes[i] == 1) {
      ir::Instruction* owns = in_range(p, at, block);
      mine = mine ? b.binary(Opcode::and_, mine, owns) : owns;
      starts[i] = scalar_clamp(p, at, block - 1);
    } else {
      // Room on both sides for what belongs to others.
      pads = true;
      padding[i] = {sizes[i], sizes[i], 0};
      begin[i] = sizes[i];
      end[i] = sizes[i] + block;
      starts[i] =
          scalar_clamp(p, b.binary(Opcode::add, at, p.emit.index(sizes[i])), block + sizes[i]);
    }
  }
  ir::Instruction* old = x;
  if (pads) x = b.pad(x, p.emit.constant_scalar(x->shape.dtype, 0), padding);
  x = b.dynamic_update_slice(x, update, starts);
  if (pads) x = b.slice(x, begin, end);
  if (mine) x = b.select(b.splat(mine, x->shape.dims), x, old);
  p.values.define(source, p.values.make(x, layout, source.shape));
}

}  // namespace tessera::spmd
