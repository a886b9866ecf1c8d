// SPDX-License-Identifier: Apache-2.0
// Dynamic slices and updates. Indices are clamped by the global sizes first and made local then;
// along a split dim each device reads or writes only what it owns.
#include <algorithm>
#include <optional>

#include "src/ir/rewrite/while_view.h"
#include "src/spmd/partitioner/families.h"

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

Dims changed_dims(const Dims& full, const Dims& part) {
  Dims out;
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (full[d] != part[d]) out.push_back(std::int64_t(d));
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

/// Rows [start, start + count) are those of the update, which is split as the array is.
RowExchangePlan plan_update_exchange(std::int64_t ways, std::int64_t size, std::int64_t start,
                                     std::int64_t count) {
  const std::int64_t block = ceil_div(size, ways);
  RowSource before = block_part(ways, size, block), after = before;
  before.hi = before.hi.at_most(start);
  after.lo = after.lo.at_least(start + count);
  RowSource update = block_part(ways, count, ceil_div(count, ways));
  update.array = 1;
  for (ByCoordinate* list : {&update.start, &update.lo, &update.hi}) *list = list->plus(start);
  return plan_row_exchange({before, after, update}, ways, size, block);
}

/// A window of a sharded array as one device sees it.
struct LocalWindow {
  std::vector<ir::Instruction*> starts;
  /// Whether it is on this device, as far as dims go of which it has one row; null: it is.
  ir::Instruction* mine = nullptr;
  /// Room on both sides of a shard for the rows of the window that other devices have.
  std::vector<ir::PadDim> padding;

  bool pads() const { return padding != std::vector<ir::PadDim>(padding.size()); }
};

/// Makes the start along dim `i` local, of which a shard has `block` rows. Clamped by the global
/// size first.
void localize_start(PartitionContext& p, const TensorSharding& layout, const Dims& global,
                    const Dims& sizes, std::size_t i, std::int64_t block, LocalWindow* window) {
  ir::Builder& b = p.b();
  const std::int64_t d = std::int64_t(i);
  ir::Instruction*& start = window->starts[i];
  start = clamped(p, start, global[i] - sizes[i]);
  if (layout.shards(d) == 1) return;
  ir::Instruction* at =
      b.binary(Opcode::subtract, start, p.emit.shard_offset(layout, d, global[i]));
  if (sizes[i] == 1) {
    ir::Instruction* owns = in_range(p, at, block);
    window->mine = window->mine ? b.binary(Opcode::and_, window->mine, owns) : owns;
    start = scalar_clamp(p, at, block - 1);
  } else {
    window->padding[i] = {sizes[i], sizes[i], 0};
    start = scalar_clamp(p, b.binary(Opcode::add, at, p.emit.index(sizes[i])), block + sizes[i]);
  }
}

/// Whether it is known who owns the rows of an update.
bool knows_owners(const ir::Instruction& source, const Dims& changed) {
  return changed.size() == 1 && source.shape.element_count() > 0 &&
         ir::known_integer(*source.operand(2 + std::size_t(changed[0])));
}

/// Where it is, only they travel.
RowExchangePlan exchange_of_update(const ir::Instruction& source, std::int64_t dim,
                                   const TensorSharding& layout) {
  const std::int64_t size = source.shape.dim(dim), count = source.operand(1)->shape.dim(dim);
  const std::int64_t at = *ir::known_integer(*source.operand(2 + std::size_t(dim)));
  const std::int64_t start = std::clamp<std::int64_t>(at, 0, size - count);
  return plan_update_exchange(layout.shards(dim), size, start, count);
}

/// The cheapest way to do an update. `ends`: the layouts that the array has and is to have.
OpPlan plan_update(PartitionContext& p, const ir::Instruction& source, const Dims& changed,
                   const std::vector<TensorSharding>& ends, Value* array, Value* update) {
  std::optional<double> least;
  OpPlan best;
  for (const TensorSharding& s : layouts_to_try(p.emit, source.shape.dims, changed, ends)) {
    double price = p.values.reshard_price(array, s) +
                   p.values.reshard_price(update, without_dims(s, changed)) +
                   p.module.reshard_cost(s, ends.front(), source.shape) +
                   p.module.machine().work(double(source.shape.element_count()) / parts_of(s));
    if (!least || price < *least) {
      least = price;
      best = {{s, without_dims(s, changed)}, {s}};
    }
    if (!knows_owners(source, changed) || s.shards(changed[0]) == 1) continue;
    const RowExchangePlan plan = exchange_of_update(source, changed[0], s);
    const double row = row_bytes(source.shape, s, changed[0]);
    price += p.values.reshard_price(update, s) -
             p.values.reshard_price(update, without_dims(s, changed)) +
             p.module.rows_price(row * double(plan.rows_moved), plan.permutes,
                                 s.dims[std::size_t(changed[0])].axes);
    if (price >= *least) continue;
    least = price;
    best = {{s, s}, {s}};
  }
  return best;
}

/// Each device writes what it owns of the update, all of which it has.
ir::Instruction* update_own_rows(PartitionContext& p, const ir::Instruction& source,
                                 const Dims& changed, const TensorSharding& layout, Value* array,
                                 Value* value) {
  const Dims& in = source.shape.dims;
  const Dims& sizes = value->shape.dims;
  LocalWindow window{start_operands(p, source, 2), nullptr, std::vector<ir::PadDim>(in.size())};
  ir::Instruction* x = p.values.reshard(array, layout, operand_reason(source, 0))->local;
  ir::Instruction* update =
      p.values.reshard(value, without_dims(layout, changed), operand_reason(source, 1))->local;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (contains(changed, std::int64_t(i))) {
      localize_start(p, layout, in, sizes, i, x->shape.dims[i], &window);
    } else {
      window.starts[i] = p.emit.index(0);
    }
  }
  Dims begin, end;
  for (std::size_t i = 0; i < in.size(); ++i) {
    begin.push_back(window.padding[i].low);
    end.push_back(window.padding[i].low + x->shape.dims[i]);
  }
  ir::Builder& b = p.b();
  ir::Instruction* old = x;
  if (window.pads()) x = b.pad(x, p.emit.constant_scalar(x->shape.dtype, 0), window.padding);
  x = b.dynamic_update_slice(x, update, window.starts);
  if (window.pads()) x = b.slice(x, begin, end);
  return window.mine ? b.select(b.splat(window.mine, x->shape.dims), x, old) : x;
}

/// The layout of a slice: partial sums where the array is split along a dim that is cut.
TensorSharding slice_layout(const TensorSharding& array, const Dims& changed) {
  TensorSharding out = without_dims(array, changed);
  out.unreduced = axes_on(array, changed);
  return out;
}

/// The layout of an array in which it is cheapest to take a slice.
TensorSharding cheapest_to_slice(PartitionContext& p, const ir::Instruction& source,
                                 const Dims& changed, const TensorSharding& requested) {
  const Dims& in = source.operand(0)->shape.dims;
  Value* v = p.values.operand(*source.operand(0));
  std::optional<double> least;
  TensorSharding best;
  for (const TensorSharding& s : layouts_to_try(p.emit, in, changed, {v->sharding, requested})) {
    const TensorSharding out = slice_layout(s, changed);
    double price = p.values.reshard_price(v, s) +
                   p.module.reshard_cost(out, requested, source.shape) +
                   p.module.machine().work(double(source.shape.element_count()) / parts_of(out));
    if (least && price >= *least) continue;
    least = price;
    best = s;
  }
  return best;
}

/// Of an op with scalar start indices from operand `first` on.
OpPlan with_starts(PartitionContext& p, const ir::Instruction& source, std::size_t first,
                   OpPlan plan) {
  for (std::size_t i = first; i < source.operands().size(); ++i) {
    plan.operands.push_back(p.source.replicated(0));
  }
  return plan;
}

}  // namespace

OpPlan plan_dynamic_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims changed = changed_dims(source.operand(0)->shape.dims, source.shape.dims);
  const TensorSharding requested = reduced(p.source.sharding(source));
  const TensorSharding layout = cheapest_to_slice(p, source, changed, requested);
  const TensorSharding result = slice_layout(layout, changed);
  return with_starts(p, source, 1, {{layout}, {result.unreduced.empty() ? result : requested}});
}

void partition_dynamic_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims& in = source.operand(0)->shape.dims;
  const Dims& sizes = source.get<ir::DynamicSliceAttrs>().sizes;
  const Dims changed = changed_dims(in, sizes);
  Value* v = p.values.operand(*source.operand(0));
  const TensorSharding layout = reduced(v->sharding), result = slice_layout(layout, changed);
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
  // Owners give their rows, the others zeros; the sum is the slice, bit for bit.
  ir::Instruction* zero = p.emit.constant_scalar(x->shape.dtype, 0);
  LocalWindow window{starts, nullptr, std::vector<ir::PadDim>(in.size())};
  Dims local_sizes = x->shape.dims;
  for (std::int64_t d : changed) {
    const std::size_t i = std::size_t(d);
    const std::int64_t block = x->shape.dims[i];
    local_sizes[i] = sizes[i];
    localize_start(p, layout, in, sizes, i, block, &window);
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!contains(changed, std::int64_t(i))) window.starts[i] = p.emit.index(0);
  }
  if (window.pads()) x = b.pad(x, zero, window.padding);
  x = b.dynamic_slice(x, window.starts, local_sizes);
  if (window.mine) {
    x = b.select(b.splat(window.mine, local_sizes), x, b.splat(zero, local_sizes));
  }
  define_sum_of_bits(p, source, x, result, reduced(p.source.sharding(source)));
}

OpPlan plan_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims changed = changed_dims(source.shape.dims, source.operand(1)->shape.dims);
  Value *array = p.values.operand(*source.operand(0)),
        *update = p.values.operand(*source.operand(1));
  const std::vector<TensorSharding> ends{reduced(p.source.sharding(source)), array->sharding};
  return with_starts(p, source, 2, plan_update(p, source, changed, ends, array, update));
}

void partition_dynamic_update_slice(PartitionContext& p, const ir::Instruction& source) {
  const Dims changed = changed_dims(source.shape.dims, source.operand(1)->shape.dims);
  Value *array = p.values.operand(*source.operand(0)),
        *update = p.values.operand(*source.operand(1));
  const TensorSharding layout = reduced(p.source.sharding(source));
  ir::Instruction* x;
  if (knows_owners(source, changed) && update->sharding.shards(changed[0]) > 1) {
    x = p.values.reshard(array, layout, operand_reason(source, 0))->local;
    ir::Instruction* rows = p.values.reshard(update, layout, operand_reason(source, 1))->local;
    x = p.rows.exchange(exchange_of_update(source, changed[0], layout), {x, rows}, changed[0],
                        layout.dims[std::size_t(changed[0])].axes, nullptr,
                        ReshardReason::within(layout, "rows of " + op_label(source)));
  } else {
    x = update_own_rows(p, source, changed, layout, array, update);
  }
  p.values.define(source, p.values.make(x, layout, source.shape));
}

}  // namespace tessera::spmd
