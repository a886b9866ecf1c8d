// SPDX-License-Identifier: Apache-2.0
// Batches reductions, windows, sorts and batch normalisation.
#include "src/transforms/batching/fold.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

/// Operands [first, last) on one dim.
std::vector<Instruction*> aligned(BatchSite& site, std::size_t first, std::size_t last,
                                  std::int64_t dim) {
  std::vector<Instruction*> out;
  for (std::size_t i = first; i < last; ++i) out.push_back(site.at(i, dim));
  return out;
}

/// A reduction whose start differs between entries: begun with the neutral element, and combined
/// with the start at the end. Empty if there is no such element.
std::optional<Batched> combined_with_start(BatchSite& site) {
  if (site.operand_count() != 2) return std::nullopt;
  const auto reducer = ir::as_binary_reducer(*site.op.called(0));
  if (!reducer || !ir::has_trait(*reducer, ir::traits::associative)) return std::nullopt;
  const auto neutral = ir::identity_of(*reducer, site.entry_shape(0).dtype);
  if (!neutral) return std::nullopt;
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  Batched reduced;
  if (site.batched(0)) {
    const std::int64_t dim = site.dim(0);
    reduced.dim = dim;
    for (std::int64_t d : attrs.dims) reduced.dim -= d < dim ? 1 : 0;
    attrs.dims = shifted(attrs.dims, dim);
  }
  ir::Builder& b = site.b;
  reduced.array =
      b.emit(site.op.opcode, {site.array(0), b.constant(*neutral)}, attrs, site.op.called());
  const std::int64_t to = site.batched(0) ? reduced.dim : 0;
  Instruction* start =
      site.spread(site.array(1), inserted(site.op.shape.dims, to, site.size()), to);
  Batched out;
  out.array = b.binary(*reducer, start, site.at(reduced, to));
  out.dim = to;
  return out;
}

}  // namespace

Batched batch_reduce(BatchSite& site) {
  const std::size_t n = site.operand_count() / 2;
  if (site.batched(n, 2 * n)) {
    if (auto out = combined_with_start(site)) return *out;
    return loop_over_entries(site);
  }
  const std::int64_t dim = site.common_dim(0, n);
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  std::int64_t to = dim;
  for (std::int64_t d : attrs.dims) to -= d < dim ? 1 : 0;
  attrs.dims = shifted(attrs.dims, dim);
  std::vector<Instruction*> operands = aligned(site, 0, n, dim);
  for (std::size_t i = n; i < 2 * n; ++i) operands.push_back(site.array(i));
  return site.emit(std::move(operands), attrs, to);
}

namespace {

/// A window of one element along the batch.
ir::WindowAttrs with_batch(ir::WindowAttrs attrs, std::int64_t dim) {
  attrs.dims.insert(attrs.dims.begin() + std::ptrdiff_t(dim), ir::WindowDim{});
  return attrs;
}

}  // namespace

Batched batch_reduce_window(BatchSite& site) {
  const std::size_t n = site.operand_count() / 2;
  // The start is also what the padding holds.
  if (site.batched(n, 2 * n)) return loop_over_entries(site);
  const std::int64_t dim = site.common_dim(0, n);
  std::vector<Instruction*> operands = aligned(site, 0, n, dim);
  for (std::size_t i = n; i < 2 * n; ++i) operands.push_back(site.array(i));
  return site.emit(std::move(operands), with_batch(site.op.get<ir::WindowAttrs>(), dim), dim);
}

Batched batch_select_and_scatter(BatchSite& site) {
  if (site.batched(2)) return loop_over_entries(site);
  const std::int64_t dim = site.common_dim(0, 2);
  return site.emit({site.at(0, dim), site.at(1, dim), site.array(2)},
                   with_batch(site.op.get<ir::WindowAttrs>(), dim), dim);
}

Batched batch_sort(BatchSite& site) {
  const std::int64_t dim = site.common_dim();
  auto attrs = site.op.get<ir::SortAttrs>();
  attrs.dim = shifted(attrs.dim, dim);
  return site.emit(aligned(site, 0, site.operand_count(), dim), attrs, dim);
}

Batched batch_topk(BatchSite& site) {
  const std::int64_t dim = site.dim(0) < site.entry_shape(0).rank() ? site.dim(0) : 0;
  return site.emit({site.at(0, dim)}, dim);
}

namespace {

/// Statistics are taken per feature: the features of all entries are features of one array.
/// Operand 0, and the gradient's last one, have all dims; the others have one value per feature.
Batched batch_norm(BatchSite& site) {
  if (site.size() == 0) return loop_over_entries(site);
  const std::int64_t feature = site.op.get<ir::BatchNormAttrs>().feature_index;
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    const bool whole = i == 0 || (site.op.is(ir::Opcode::batch_norm_grad) && i == 4);
    operands.push_back(fold(site, site.operand(i), whole ? feature : 0));
  }
  std::vector<Shape> shapes;
  Shape shape = site.op.shape;
  for (Shape* leaf : shape.is_tuple ? std::vector<Shape*>{&shape.elements[0], &shape.elements[1],
                                                          &shape.elements[2]}
                                    : std::vector<Shape*>{&shape}) {
    leaf->layout.clear();
    const bool whole = leaf == &shape || leaf == &shape.elements[0];
    leaf->dims[whole ? std::size_t(feature) : 0] *= site.size();
  }
  Instruction* made = site.emit_calling(shape, std::move(operands), site.op.attrs, {});
  if (!shape.is_tuple) return unfold(site, made, feature);
  Batched out;
  out.is_tuple = true;
  for (std::int64_t k = 0; k < 3; ++k) {
    out.elements.push_back(unfold(site, site.b.get_tuple_element(made, k), k == 0 ? feature : 0));
  }
  return out;
}

}  // namespace

Batched batch_batch_norm_training(BatchSite& site) { return batch_norm(site); }
Batched batch_batch_norm_inference(BatchSite& site) { return batch_norm(site); }
Batched batch_batch_norm_grad(BatchSite& site) { return batch_norm(site); }

}  // namespace tessera::transforms::batching
