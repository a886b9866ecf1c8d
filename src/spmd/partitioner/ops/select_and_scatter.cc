// SPDX-License-Identifier: Apache-2.0
// select-and-scatter (the gradient of pooling) along split dims: each device fetches the rows of
// the windows that reach its own rows, and what those windows give out. Where windows reach beyond
// the array, it is written as a pad before and a slice after: the three are one step then.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// One split dim.
struct Reach {
  std::int64_t dim = 0;
  IndexList axes;
  RowExchangePlan operand, source;
  Dims own;  ///< by coordinate: where the device's own rows begin among those fetched
  std::int64_t block = 0, rows = 0;  ///< own, fetched
};

/// `size` rows of an array that is padded by `padding` first.
Reach reach_of(const PartitionContext& p, std::int64_t dim, const IndexList& axes,
               const ir::WindowDim& w, std::int64_t size, const ir::PadDim& padding,
               std::int64_t windows) {
  Reach r;
  r.dim = dim;
  r.axes = axes;
  const std::int64_t ways = p.emit.ways(axes), block = ceil_div(size, ways);
  Dims first;
  std::int64_t most = 1;
  for (std::int64_t c = 0; c < ways; ++c) {
    const std::int64_t begin = padding.low + c * block;
    const std::int64_t end = std::min(begin + block, padding.low + size);
    // Windows that reach rows begin .. end - 1. There may be none such at the ends: then nothing
    // comes from them, and all devices do the same.
    const std::int64_t lo = floor_div(begin + w.pad_low - w.size + w.stride, w.stride);
    const std::int64_t hi = begin < end ? floor_div(end - 1 + w.pad_low, w.stride) + 1 : lo;
    first.push_back(lo);
    most = std::max(most, hi - lo);
  }
  Dims rows;
  for (std::int64_t c = 0; c < ways; ++c) {
    rows.push_back(first[std::size_t(c)] * w.stride - w.pad_low);
    r.own.push_back(padding.low + c * block - rows.back());
  }
  r.block = block;
  r.rows = (most - 1) * w.stride + w.size;
  const std::int64_t padded = padding.low + size + padding.high;
  r.operand = plan_windows({spread_part(ways, size, padding.low, 0, padded)}, rows, padded, r.rows);
  r.source =
      plan_windows({block_part(ways, windows, ceil_div(windows, ways))}, first, windows, most);
  return r;
}

/// What is never selected, if the selection is by comparing.
std::optional<Literal> never_selected(const ir::Computation& select, DType dtype) {
  const ir::Instruction& root = *select.root();
  if (!root.is(ir::Opcode::compare) || root.operand(0) != select.parameter(0) ||
      root.operand(1) != select.parameter(1)) {
    return std::nullopt;
  }
  switch (root.get<ir::CompareAttrs>().direction) {
    case ir::Direction::ge:
    case ir::Direction::gt:
      return ir::identity_of(ir::Opcode::maximum, dtype);
    case ir::Direction::le:
    case ir::Direction::lt:
      return ir::identity_of(ir::Opcode::minimum, dtype);
    default:
      return std::nullopt;
  }
}

double price(const PartitionContext& p, const std::vector<Reach>& reaches, Dims operand,
             Dims source, DType dtype) {
  double total = 0;
  for (const Reach& r : reaches) {
    const std::size_t d = std::size_t(r.dim);
    operand[d] = source[d] = 1;
    const double bytes =
        double(byte_size(dtype)) * (double(element_count(operand)) * double(r.operand.rows_moved) +
                                    double(element_count(source)) * double(r.source.rows_moved));
    total += p.module.rows_price(bytes, r.operand.permutes + r.source.permutes, r.axes);
    operand[d] = r.rows;
    source[d] = r.source.block;
  }
  return total;
}

/// What never is selected, where the op is known well enough to run on parts.
std::optional<Literal> fill_of(const ir::Instruction& op) {
  const Shape& in = op.operand(0)->shape;
  if (ir::as_binary_reducer(*op.called().at(1)) != ir::Opcode::add) return std::nullopt;
  if (in.element_count() == 0 || op.operand(1)->shape.element_count() == 0) return std::nullopt;
  for (const ir::WindowDim& w : op.get<ir::WindowAttrs>().dims) {
    if (w.lhs_dilation != 1 || w.rhs_dilation != 1 || w.reversal) return std::nullopt;
  }
  return never_selected(*op.called().at(0), in.dtype);
}

/// The slice that cuts a result back to what was padded for the op; null if there is none.
const ir::Instruction* cut_of(const PartitionContext& p, const ir::Instruction& op) {
  const ir::Instruction& pad = *op.operand(0);
  if (!pad.is(ir::Opcode::pad) || p.source.user_count(pad) != 1 || p.source.user_count(op) != 1)
    return nullptr;
  if (p.source.users(op).empty() || !fill_of(op)) return nullptr;
  const ir::Instruction& cut = *p.source.users(op).front();
  if (!cut.is(ir::Opcode::slice) || cut.shape.dims != pad.operand(0)->shape.dims) return nullptr;
  const auto& window = op.get<ir::WindowAttrs>().dims;
  const auto& attrs = cut.get<ir::SliceAttrs>();
  for (std::size_t d = 0; d < window.size(); ++d) {
    const ir::PadDim& padding = pad.get<ir::PadAttrs>().dims[d];
    if (padding == ir::PadDim{}) continue;
    if (padding.interior != 0 || padding.low < 0 || padding.high < 0 || window[d].pad_low != 0 ||
        window[d].pad_high != 0 || attrs.starts[d] != padding.low ||
        (!attrs.strides.empty() && attrs.strides[d] != 1)) {
      return nullptr;
    }
  }
  return &cut;
}

/// `op` on the array `operand` padded by `padding` (a scalar `value`), cut back to its dims.
struct Pooling {
  const ir::Instruction &op, &operand, &result;
  std::vector<ir::PadDim> padding;
  const ir::Instruction* value = nullptr;  ///< null: nothing is padded
};

ComputeLayout layout_of(PartitionContext& p, const Pooling& pool, const FactorRule& rule) {
  const ir::Instruction* operands[] = {&pool.operand, pool.op.operand(1), pool.op.operand(2)};
  std::vector<Shape> shapes;
  std::vector<TensorSharding> shardings;
  for (const ir::Instruction* o : operands) {
    const Value* v = p.values.operand(*o);
    shapes.push_back(o->shape);
    shardings.push_back(v->is_recomputable() ? p.source.replicated(o->shape.rank()) : v->sharding);
  }
  if (p.module.stage() == PartitionStage::device) {
    std::vector<TensorSharding> given;
    for (const ir::Instruction* o : operands) given.push_back(p.source.sharding(*o));
    if (auto agreed = agreed_layout(rule, given, p.source.shardings(pool.result))) return *agreed;
  }
  return p.module.choose_layout({rule,
                                 shapes,
                                 shardings,
                                 {pool.result.shape},
                                 p.source.shardings(pool.result),
                                 double(pool.operand.shape.element_count())});
}

std::vector<Reach> reaches_of(const PartitionContext& p, const Pooling& pool,
                              const TensorSharding& s) {
  const auto& window = pool.op.get<ir::WindowAttrs>().dims;
  std::vector<Reach> reaches;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (s.shards(std::int64_t(d)) == 1) continue;
    if (window[d] == ir::WindowDim{} && pool.padding[d] == ir::PadDim{}) continue;
    reaches.push_back(reach_of(p, std::int64_t(d), s.dims[d].axes, window[d],
                               pool.operand.shape.dims[d], pool.padding[d],
                               pool.op.operand(1)->shape.dims[d]));
  }
  return reaches;
}

void emit(PartitionContext& p, const Pooling& pool, const ComputeLayout& layout,
          const std::vector<Reach>& reaches) {
  const ir::Instruction& op = pool.op;
  auto operand = [&](const ir::Instruction& o, std::size_t i) {
    return p.values.reshard(p.values.operand(o), layout.operands[i], operand_reason(op, i))->local;
  };
  ir::Builder& b = p.b();
  ir::Instruction* x = operand(pool.operand, 0);
  ir::Instruction* y = operand(*op.operand(1), 1);
  ir::Instruction* init = operand(*op.operand(2), 2);
  ir::Instruction* hidden;
  if (pool.value) {
    Value* v = p.values.declared(*pool.value);
    hidden = p.values.reshard(v, p.source.replicated(0), "padding of " + op_label(op))->local;
  } else {
    hidden = b.constant(*fill_of(op));
  }
  ir::Instruction* zero = p.emit.constant_scalar(y->shape.dtype, 0);
  const ReshardReason reason =
      ReshardReason::within(layout.operands[0], "rows that windows of " + op_label(op) + " reach");
  ir::WindowAttrs local = op.get<ir::WindowAttrs>();
  std::vector<ir::PadDim> rest = pool.padding;
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
  for (std::size_t d = 0; d < rest.size(); ++d) {
    starts[d] = rest[d].low;
    limits[d] += rest[d].low;
  }
  for (const Reach& r : reaches) {
    x = p.rows.exchange(r.operand, {x}, r.dim, r.axes, hidden, reason);
    y = p.rows.exchange(r.source, {y}, r.dim, r.axes, zero, reason);
    const std::size_t d = std::size_t(r.dim);
    local.dims[d].pad_low = local.dims[d].pad_high = 0;
    rest[d] = {};
    starts[d] = 0;
    limits[d] = r.rows;
  }
  const bool padded = rest != std::vector<ir::PadDim>(rest.size());
  if (padded) x = b.pad(x, hidden, rest);
  x = p.emit.local_op(op, {x, y, init}, x->shape, local);
  if (padded) x = b.slice(x, starts, limits);
  for (const Reach& r : reaches) {
    const auto [least, most] = std::minmax_element(r.own.begin(), r.own.end());
    const ir::PadDim pad{std::max<std::int64_t>(-*least, 0),
                         std::max<std::int64_t>(*most + r.block - r.rows, 0), 0};
    x = p.emit.pad_dim(x, r.dim, pad, init);
    Dims at;
    for (std::int64_t own : r.own) at.push_back(own + pad.low);
    x = p.emit.dynamic_slice_dim(x, r.dim, p.emit.lookup(at, r.axes), r.block);
  }
  p.values.define(pool.result, p.values.make(x, layout.results[0], pool.result.shape));
}

struct SplitPooling {
  ComputeLayout layout;
  std::vector<Reach> reaches;
};

/// The cheaper of windows along split dims and of none such; nothing if that is none, and the op
/// may do without (`may_replicate`).
std::optional<SplitPooling> split_pooling(PartitionContext& p, const Pooling& pool,
                                          bool may_replicate) {
  FactorRule rule = *rule_for(pool.op);
  for (std::size_t d = 0; d < pool.padding.size(); ++d) {
    for (int f : rule.operands[0][d]) {
      rule.factors[std::size_t(f)].size =
          std::max(pool.operand.shape.dims[d], pool.op.operand(1)->shape.dims[d]);
    }
  }
  ComputeLayout layout = layout_of(p, pool, rule);
  std::vector<Reach> reaches = reaches_of(p, pool, layout.operands[0]);
  const Shape& from = pool.op.operand(1)->shape;
  const double cost =
      layout.cost + price(p, reaches, layout.operands[0].shard_dims(pool.operand.shape.dims),
                          layout.operands[1].shard_dims(from.dims), from.dtype);
  ComputeLayout other = layout_of(p, pool, without_windows(rule));
  if (reaches.empty() || other.cost <= cost) {
    if (may_replicate) return std::nullopt;
    layout = std::move(other);
    reaches = reaches_of(p, pool, layout.operands[0]);
  }
  return SplitPooling{std::move(layout), std::move(reaches)};
}

/// The pad, the op and the slice that are one step.
Pooling pooling_of_cut(const ir::Instruction& slice) {
  const ir::Instruction& op = *slice.operand(0);
  const ir::Instruction& pad = *op.operand(0);
  return {op, *pad.operand(0), slice, pad.get<ir::PadAttrs>().dims, pad.operand(1)};
}

Pooling pooling_of(const ir::Instruction& op) {
  return {op, *op.operand(0), op, std::vector<ir::PadDim>(op.shape.dims.size()), nullptr};
}

/// Of one that stands alone.
std::optional<SplitPooling> split_alone(PartitionContext& p, const ir::Instruction& op) {
  if (!fill_of(op)) return std::nullopt;
  return split_pooling(p, pooling_of(op), /*may_replicate=*/true);
}

bool is_cut(const PartitionContext& p, const ir::Instruction& slice) {
  const ir::Instruction& op = *slice.operand(0);
  return op.is(ir::Opcode::select_and_scatter) && cut_of(p, op) == &slice;
}

}  // namespace

bool place_cut_of_select_and_scatter(PartitionContext& p, const ir::Instruction& slice) {
  if (!is_cut(p, slice)) return false;
  const Pooling pool = pooling_of_cut(slice);
  const ir::Instruction& pad = *pool.op.operand(0);
  const ComputeLayout layout = split_pooling(p, pool, /*may_replicate=*/false)->layout;
  const TensorSharding& result = layout.results[0];
  ir::Instruction* x = p.values.operand_in(pad, 0, layout.operands[0])->local;
  ir::Instruction* fill = p.values.operand_in(pad, 1, p.source.replicated(0))->local;
  x = place_on(p, pad, {x, fill}, {{}, {layout.operands[0]}})[0]->local;
  ir::Instruction* y = p.values.operand_in(pool.op, 1, layout.operands[1])->local;
  ir::Instruction* init = p.values.operand_in(pool.op, 2, layout.operands[2])->local;
  x = place_on(p, pool.op, {x, y, init}, {{}, {result}})[0]->local;
  place_on(p, slice, {x}, {{}, {result}});
  return true;
}

bool partition_cut_of_select_and_scatter(PartitionContext& p, const ir::Instruction& slice) {
  if (!is_cut(p, slice)) return false;
  const Pooling pool = pooling_of_cut(slice);
  const SplitPooling split = *split_pooling(p, pool, /*may_replicate=*/false);
  emit(p, pool, split.layout, split.reaches);
  return true;
}

void place_select_and_scatter(PartitionContext& p, const ir::Instruction& source) {
  if (cut_of(p, source)) return;  // the slice places it all
  const std::optional<SplitPooling> split = split_alone(p, source);
  place(p, source, split ? planned(split->layout) : plan_by_rule(p, source));
}

void partition_select_and_scatter(PartitionContext& p, const ir::Instruction& source) {
  if (cut_of(p, source)) return;  // the slice does it all
  const std::optional<SplitPooling> split = split_alone(p, source);
  if (!split) return partition_by_rule(p, source);
  emit(p, pooling_of(source), split->layout, split->reaches);
}

}  // namespace tessera::spmd
