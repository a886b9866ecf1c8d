// SPDX-License-Identifier: Apache-2.0
// Ways to move rows along dims, and the cheapest of them.
#include "src/spmd/partitioner/ops/row_moves.h"

#include <algorithm>

namespace tessera::spmd {

RowExchangePlan route_for(const RowOp& op, const RowMove& c, std::int64_t dim, PlanFor what) {
  const std::int64_t ways = c.layout.shards(dim), size = op.source.shape.dim(dim);
  std::vector<RowSource> parts;
  for (const RowOrigin& s : op.from) {
    parts.push_back(op.placer(s, dim, ways, !c.everywhere.empty() && c.everywhere[s.array]).part);
    parts.back().array = s.array;
  }
  return plan_row_exchange(parts, ways, size, ceil_div(size, ways), what);
}

TensorSharding array_layout(const RowOp& op, const RowMove& c, std::size_t array) {
  const bool everywhere = !c.everywhere.empty() && c.everywhere[array];
  return everywhere ? without_dims(c.layout, op.changed) : c.layout;
}

TensorSharding summed_layout(const RowMove& c) {
  TensorSharding s = without_dims(c.layout, c.summed);
  for (std::int64_t d : c.summed) {
    const IndexList& a = c.layout.dims[std::size_t(d)].axes;
    s.unreduced.insert(s.unreduced.end(), a.begin(), a.end());
  }
  return s;
}

namespace {

std::vector<Value*> arrays_of(const RowOp& op) {
  std::vector<Value*> arrays;
  for (const RowOrigin& s : op.from) {
    if (s.array == arrays.size()) arrays.push_back(s.value);
  }
  return arrays;
}

/// Arrays of a concatenation that are unsplit are taken as they are.
RowMove taking_unsplit(const RowOp& op, const TensorSharding& layout) {
  RowMove c{layout, {}, {}, 0, 0};
  const bool splits = std::any_of(op.changed.begin(), op.changed.end(),
                                  [&](std::int64_t d) { return layout.shards(d) > 1; });
  if (splits && op.source.is(ir::Opcode::concatenate)) {
    for (Value* v : arrays_of(op)) {
      c.everywhere.push_back(v->sharding.shards(op.changed.front()) == 1);
    }
  }
  return c;
}

}  // namespace

RowMove planned_move(PartitionContext& p, const RowOp& op) {
  return taking_unsplit(op, p.source.sharding(op.source));
}

RowMove cheapest_move(PartitionContext& p, const RowOp& op, const TensorSharding& requested) {
  const ir::Instruction& source = op.source;
  const Dims& changed = op.changed;
  RowMove best;
  const std::vector<Value*> arrays = arrays_of(op);
  std::vector<TensorSharding> ends{requested};
  for (Value* v : arrays) ends.push_back(v->sharding);
  bool split_ends = !is_fully_replicated(requested);
  for (Value* v : arrays) split_ends &= !is_fully_replicated(v->sharding);
  constexpr double last_resort = 1e30;
  bool first = true;
  auto consider = [&](RowMove c) {
    double price = 0;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      price += p.values.reshard_price(arrays[i], array_layout(op, c, i));
    }
    c.operands_price = price;
    for (std::int64_t d : changed) {
      if (c.layout.shards(d) == 1 || contains(c.summed, d)) continue;
      const RowExchangePlan plan = route_for(op, c, d, PlanFor::price);
      price += p.module.rows_price(double(plan.rows_moved) * row_bytes(source.shape, c.layout, d),
                                   plan.permutes, c.layout.dims[std::size_t(d)].axes);
    }
    price += p.module.reshard_cost(summed_layout(c), requested, source.shape);
    const double parts = c.summed.empty() ? parts_of(c.layout) : 1;
    price += p.module.machine().work(double(source.shape.element_count()) / parts);
    // Gathering what is split at both ends is the last resort.
    if (is_fully_replicated(c.layout) && split_ends) price += last_resort;
    c.price = price;
    if (first || price < best.price) best = std::move(c);
    first = false;
  };
  for (const TensorSharding& s : layouts_to_try(p.emit, source.shape.dims, changed, ends)) {
    const RowMove c = taking_unsplit(op, s);
    consider(c);
    if (!c.everywhere.empty()) consider({s, {}, {}, 0, 0});
    if (!op.may_sum || is_complex(source.shape.dtype)) continue;
    Dims split, single;
    for (std::int64_t d : changed) {
      if (s.shards(d) == 1) continue;
      split.push_back(d);
      if (source.shape.dim(d) == 1) single.push_back(d);
    }
    if (!split.empty()) consider({s, {}, split, 0, 0});
    if (!single.empty() && single != split) consider({s, {}, single, 0, 0});
  }
  return best;
}

ir::Instruction* exchanged(PartitionContext& p, const RowOp& op, const RowMove& c, std::int64_t dim,
                           const std::vector<ir::Instruction*>& arrays, ir::Instruction* fill) {
  return p.rows.exchange(route_for(op, c, dim), arrays, dim, c.layout.dims[std::size_t(dim)].axes,
                         fill, rows_of(op.source, c.layout));
}

ReshardReason rows_of(const ir::Instruction& source, const TensorSharding& layout) {
  return ReshardReason::within(layout, "rows of " + op_label(source));
}

}  // namespace tessera::spmd
