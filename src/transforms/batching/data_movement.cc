// SPDX-License-Identifier: Apache-2.0
// Batches ops that move elements: the batch dim stays where it is unless it is in the way.
#include <numeric>

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

Batched batch_broadcast(BatchSite& site) {
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  const std::int64_t from = site.dim(0);
  // Behind the dim that it follows in the operand: nothing changes its place.
  const std::int64_t to = from > 0 ? attrs.dims[std::size_t(from) - 1] + 1 : 0;
  attrs.dims = inserted(shifted(attrs.dims, to), from, to);
  return site.emit({site.array(0)}, attrs, to);
}

Batched batch_concatenate(BatchSite& site) {
  const std::int64_t dim = site.common_dim();
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  attrs.dims = shifted(attrs.dims, dim);
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, dim));
  return site.emit(std::move(operands), attrs, dim);
}

Batched batch_pad(BatchSite& site) {
  auto attrs = site.op.get<ir::PadAttrs>();
  const std::int64_t dim = site.batched(0) ? site.dim(0) : 0;
  if (!site.batched(1)) {
    attrs.dims.insert(attrs.dims.begin() + std::ptrdiff_t(dim), ir::PadDim{});
    return site.emit({site.array(0), site.array(1)}, attrs, dim);
  }
  // Each entry has a value of its own: padded with anything, and that value wherever the operand
  // isn't.
  ir::Builder& b = site.b;
  const Shape& entry = site.entry_shape(0);
  Instruction* mask =
      b.pad(b.splat(b.scalar(DType::pred, 1), entry.dims), b.scalar(DType::pred, 0), attrs.dims);
  Batched inside;
  inside.array = mask;
  if (site.batched(0)) {
    attrs.dims.insert(attrs.dims.begin() + std::ptrdiff_t(dim), ir::PadDim{});
  }
  Batched padded;
  padded.array = b.pad(site.array(0), b.zero(entry.dtype), attrs.dims);
  padded.dim = site.dim(0);
  Instruction* values =
      site.spread(site.array(1), inserted(site.op.shape.dims, dim, site.size()), dim);
  Batched out;
  out.array = b.select(site.at(inside, dim), site.at(padded, dim), values);
  out.dim = dim;
  return out;
}

Batched batch_reshape(BatchSite& site) {
  const Dims &from = site.entry_shape(0).dims, &to = site.op.shape.dims;
  // It may stay if a dim of the result begins where it stands: as many elements in front of it.
  std::int64_t before = 1, in_front = 1, place = 0;
  for (std::int64_t d = 0; d < site.dim(0); ++d) before *= from[std::size_t(d)];
  while (in_front != before && std::size_t(place) < to.size()) {
    in_front *= to[std::size_t(place++)];
  }
  const bool stays = in_front == before && element_count(from) > 0;
  const std::int64_t dim = stays ? place : 0;
  return site.emit({site.at(0, stays ? site.dim(0) : 0)}, dim);
}

Batched batch_reverse(BatchSite& site) {
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  attrs.dims = shifted(attrs.dims, site.dim(0));
  return site.emit({site.array(0)}, attrs, site.dim(0));
}

Batched batch_slice(BatchSite& site) {
  auto attrs = site.op.get<ir::SliceAttrs>();
  const std::int64_t dim = site.dim(0);
  attrs.starts = inserted(attrs.starts, dim, 0);
  attrs.limits = inserted(attrs.limits, dim, site.size());
  if (!attrs.strides.empty()) attrs.strides = inserted(attrs.strides, dim, 1);
  return site.emit({site.array(0)}, attrs, dim);
}

Batched batch_transpose(BatchSite& site) {
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  const std::int64_t dim = site.dim(0);
  attrs.dims = inserted(shifted(attrs.dims, dim), dim, dim);
  return site.emit({site.array(0)}, attrs, dim);
}

}  // namespace tessera::transforms::batching
