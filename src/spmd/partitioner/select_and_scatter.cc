// SPDX-License-Identifier: Apache-2.0
// select-and-scatter (the gradient of pooling) along split dims: each device fetches the rows of
// the windows that reach its own rows, and what those windows give out.
#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/// One split dim.
struct Reach {
  std::int64_t dim = 0;
  std::vector<int> axes;
  RoutePlan operand, source;
  Dims own;  ///< by coordinate: where the device's own rows begin among those fetched
  std::int64_t block = 0, rows = 0;  ///< own, fetched
};

Reach reach_of(const ComputationPartitioner& p, std::int64_t dim, const std::vector<int>& axes,
               const ir::WindowDim& w, std::int64_t size, std::int64_t windows) {
  Reach r;
  r.dim = dim;
  r.axes = axes;
  const std::int64_t ways = p.ways(axes), block = ceil_div(size, ways);
  Dims first;
  std::int64_t most = 1;
  for (std::int64_t c = 0; c < ways; ++c) {
    const std::int64_t begin = c * block, end = std::min(begin + block, size);
    // Windows that reach rows begin .. end - 1.
    std::int64_t lo = floor_div(begin + w.pad_low - w.size + w.stride, w.stride);
    std::int64_t hi = floor_div(end - 1 + w.pad_low, w.stride) + 1;
    lo = std::clamp<std::int64_t>(lo, 0, windows);
    hi = begin < end ? std::clamp(hi, lo, windows) : lo;
    first.push_back(lo);
    most = std::max(most, hi - lo);
  }
  Dims rows;
  for (std::int64_t c = 0; c < ways; ++c) {
    rows.push_back(first[std::size_t(c)] * w.stride - w.pad_low);
    r.own.push_back(c * block - rows.back());
  }
  r.block = block;
  r.rows = (most - 1) * w.stride + w.size;
  r.operand = plan_windows({block_part(ways, size, block)}, rows, size, r.rows);
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

double price(const ComputationPartitioner& p, const std::vector<Reach>& reaches, Dims operand,
             Dims source, DType dtype) {
  double total = 0;
  for (const Reach& r : reaches) {
    const std::size_t d = std::size_t(r.dim);
    operand[d] = source[d] = 1;
    total += double(byte_size(dtype)) *
             (double(element_count(operand)) * double(r.operand.rows_received) +
              double(element_count(source)) * double(r.source.rows_received));
    total += p.cost().latency_bytes * (r.operand.permutes + r.source.permutes);
    operand[d] = r.rows;
    source[d] = r.source.block;
  }
  return total;
}

FactorRule without_halo(FactorRule rule) {
  for (Factor& f : rule.factors) {
    if (f.kind == FactorKind::permutation) f.kind = FactorKind::need_replication;
  }
  return rule;
}

}  // namespace

void partition_select_and_scatter(ComputationPartitioner& p, const ir::Instruction& source) {
  const auto& window = source.get<ir::WindowAttrs>().dims;
  const Shape &in = source.operand(0)->shape, &from = source.operand(1)->shape;
  const auto scatter = ir::as_binary_reducer(*source.called.at(1));
  const std::optional<Literal> fill = never_selected(*source.called.at(0), in.dtype);
  bool plain =
      scatter == ir::Opcode::add && fill && in.element_count() > 0 && from.element_count() > 0;
  for (const ir::WindowDim& w : window) {
    plain = plain && w.lhs_dilation == 1 && w.rhs_dilation == 1 && !w.reversal;
  }
  const std::optional<FactorRule> rule = rule_for(source);
  if (!plain || !rule) return partition_by_rule(p, source);
  const ComputeLayout layout = p.layout_for(source, *rule);
  const TensorSharding& s = layout.operands[0];
  std::vector<Reach> reaches;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (s.shards(std::int64_t(d)) == 1 || window[d] == ir::WindowDim{}) continue;
    reaches.push_back(
        reach_of(p, std::int64_t(d), s.dims[d].axes, window[d], in.dims[d], from.dims[d]));
  }
  const double cost = layout.cost + price(p, reaches, s.shard_dims(in.dims),
                                          layout.operands[1].shard_dims(from.dims), in.dtype);
  if (reaches.empty() || p.layout_for(source, without_halo(*rule)).cost <= cost) {
    return partition_by_rule(p, source);
  }
  const std::vector<Value*> values = p.operands_in(source, layout.operands);
  ir::Builder& b = p.b();
  ir::Instruction *x = values[0]->local, *y = values[1]->local, *init = values[2]->local;
  ir::Instruction* hidden = b.constant(*fill);
  ir::Instruction* zero = p.constant_scalar(from.dtype, 0);
  const std::string spec = s.to_spec_string();
  p.transfer = {spec, spec, "rows that windows of " + op_label(source) + " reach", false};
  ir::WindowAttrs local{window};
  for (const Reach& r : reaches) {
    x = p.emit_route(r.operand, {x}, r.dim, r.axes, hidden, in);
    y = p.emit_route(r.source, {y}, r.dim, r.axes, zero, from);
    ir::WindowDim& w = local.dims[std::size_t(r.dim)];
    w.pad_low = w.pad_high = 0;
  }
  p.transfer = {};
  x = p.emit_local(source, {x, y, init}, x->shape, local);
  for (const Reach& r : reaches) {
    const auto [least, most] = std::minmax_element(r.own.begin(), r.own.end());
    std::vector<ir::PadDim> padding(x->shape.dims.size());
    ir::PadDim& pad = padding[std::size_t(r.dim)];
    pad.low = std::max<std::int64_t>(-*least, 0);
    pad.high = std::max<std::int64_t>(*most + r.block - r.rows, 0);
    if (pad.low > 0 || pad.high > 0) x = b.pad(x, init, padding);
    Dims starts;
    for (std::int64_t own : r.own) starts.push_back(own + pad.low);
    x = p.dynamic_slice_dim(x, r.dim, p.lookup(starts, r.axes), r.block);
  }
  p.define(source, p.make(x, layout.results[0], source.shape));
}

}  // namespace tessera::spmd
