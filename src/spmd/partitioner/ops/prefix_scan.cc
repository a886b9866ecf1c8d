// SPDX-License-Identifier: Apache-2.0
// Prefix sums and other scans along a split dim: each device scans its own rows and receives one
// total from each of the others.
#include "src/ir/rewrite/on_arrays.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

namespace {

/// A window that holds all elements up to its own (1), from its own on (-1), or none such (0).
int scan_direction(const ir::WindowDim& w, std::int64_t size) {
  if (w.size != size || w.stride != 1 || w.lhs_dilation != 1 || w.rhs_dilation != 1) return 0;
  if (w.pad_low == size - 1 && w.pad_high == 0) return 1;
  if (w.pad_low == 0 && w.pad_high == size - 1) return -1;
  return 0;
}

bool is_constant(const ir::Instruction& x) {
  const ir::Instruction* at = &x;
  while (at->is(ir::Opcode::copy)) at = at->operand(0);
  return at->is(ir::Opcode::constant);
}

}  // namespace

std::optional<std::int64_t> scan_dim(const ir::Instruction& source, const TensorSharding& s) {
  const std::size_t count = source.operands().size() / 2;
  const ir::Computation& reducer = *source.called().front();
  if (auto op = ir::as_binary_reducer(reducer)) {
    auto identity = ir::identity_of(*op, source.shape.dtype);
    if (!identity || !is_literal(*source.operand(1), *identity)) return std::nullopt;
  } else {
    // Windows hold their initial value as often as they reach beyond the array: whatever the
    // reducer, it is neutral, or the results would mean nothing.
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_constant(*source.operand(count + i))) return std::nullopt;
    }
    if (ir::not_on_arrays(reducer)) return std::nullopt;
  }
  const auto& window = source.get<ir::WindowAttrs>().dims;
  const Dims& dims = source.operand(0)->shape.dims;
  std::optional<std::int64_t> found;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (window[d] == ir::WindowDim{}) continue;
    if (s.shards(std::int64_t(d)) == 1) continue;
    if (found || scan_direction(window[d], dims[d]) == 0) return std::nullopt;
    found = std::int64_t(d);
  }
  return found;
}

std::vector<ir::Instruction*> prefix_scan(PartitionContext& p, const ir::Instruction& source,
                                          const std::vector<Value*>& values, std::int64_t dim) {
  ir::Builder& b = p.b();
  const std::size_t count = source.operands().size() / 2, d = std::size_t(dim);
  const TensorSharding& s = values.front()->sharding;
  std::vector<ir::Instruction*> inputs, neutral;
  for (std::size_t i = 0; i < count; ++i) {
    neutral.push_back(values[count + i]->local);
    inputs.push_back(p.values.masked(values[i], {dim}, neutral[i]));
  }
  const Dims local = inputs.front()->shape.dims;
  ir::WindowAttrs window = source.get<ir::WindowAttrs>();
  const bool forward = scan_direction(window.dims[d], source.operand(0)->shape.dims[d]) > 0;
  window.dims[d].size = local[d];
  (forward ? window.dims[d].pad_low : window.dims[d].pad_high) = local[d] - 1;
  inputs.insert(inputs.end(), neutral.begin(), neutral.end());
  const std::vector<TensorSharding> layouts(count, s);
  std::vector<ir::Instruction*> inner =
      p.emit.unpack(p.emit.local_op(source, inputs, local_tuple(source.shape, layouts), window));
  // The last row of the inner result is the device's total.
  const std::int64_t last = forward ? local[d] - 1 : 0;
  const IndexList& axes = s.dims[d].axes;
  const std::int64_t k = p.emit.ways(axes);
  const ByCoordinate before = ByCoordinate::line(k, 0, 1), after = before.plus(1);
  const ReshardReason reason = ReshardReason::within(s, "totals of " + op_label(source));
  std::vector<ir::Instruction*> totals;
  for (std::size_t i = 0; i < count; ++i) {
    ir::Instruction* total = p.emit.slice_dim(inner[i], dim, last, last + 1);
    Dims flat = total->shape.dims;
    flat.insert(flat.begin(), 1);
    ir::Instruction* all = b.all_gather(b.reshape(total, flat), 0, p.emit.groups(axes));
    p.report.note(all, reason);
    ir::Instruction* others =
        p.emit.range_mask(all->shape.dims, 0, forward ? nullptr : p.emit.lookup(after, axes),
                          forward ? p.emit.lookup(before, axes) : nullptr);
    totals.push_back(b.select(others, all, b.splat(neutral[i], all->shape.dims)));
  }
  Shape carried = local_tuple(source.shape, layouts);
  if (!carried.is_tuple) carried.dims[d] = 1;
  for (Shape& leaf : carried.elements) leaf.dims[d] = 1;
  totals.insert(totals.end(), neutral.begin(), neutral.end());
  std::vector<ir::Instruction*> carry = p.emit.unpack(b.emit_shaped(
      ir::Opcode::reduce, carried, totals, ir::DimensionsAttrs{{0}}, p.emit.import_called(source)));
  Dims rest = inner[0]->shape.dims, map;
  rest.erase(rest.begin() + dim);
  for (std::int64_t i = 0; i < std::int64_t(local.size()); ++i) {
    if (i != dim) map.push_back(i);
  }
  for (ir::Instruction*& c : carry) {
    c = b.broadcast(b.reshape(c, rest), inner[0]->shape.dims, map);
  }
  if (count == 1) {
    if (auto op = ir::as_binary_reducer(*source.called().front())) {
      return {b.binary(*op, forward ? carry[0] : inner[0], forward ? inner[0] : carry[0])};
    }
  }
  // What comes earlier stands on the left.
  std::vector<ir::Instruction*> arguments = forward ? carry : inner;
  const std::vector<ir::Instruction*>& later = forward ? inner : carry;
  arguments.insert(arguments.end(), later.begin(), later.end());
  return ir::on_arrays(b, *source.called().front(), arguments);
}

}  // namespace tessera::spmd
