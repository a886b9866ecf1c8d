// SPDX-License-Identifier: Apache-2.0
// Batches elementwise ops: operands on one dim, those that the batch doesn't reach repeated.
#include <numeric>

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

/// A scalar that stands for an array of the result's dims may stay one if all entries share it.
Instruction* scalar_or_array(BatchSite& site, std::size_t i, std::int64_t dim) {
  if (site.entry_shape(i).rank() > 0 || site.op.shape.rank() == 0) {
    return site.batched(i) || site.entry_shape(i).rank() > 0 ? site.at(i, dim) : site.array(i);
  }
  if (!site.batched(i)) return site.array(i);
  return site.spread(site.array(i), inserted(site.op.shape.dims, dim, site.size()), dim);
}

}  // namespace

Batched batch_elementwise(BatchSite& site) {
  // A copy of a tuple.
  if (site.op.shape.is_tuple) return site.operand(0);
  const std::int64_t dim = site.common_dim();
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, dim));
  return site.emit(std::move(operands), dim);
}

Batched batch_select(BatchSite& site) {
  const bool scalar = site.entry_shape(0).rank() < site.op.shape.rank();
  const std::int64_t dim = scalar ? site.common_dim(1, 3) : site.common_dim();
  return site.emit({scalar_or_array(site, 0, dim), site.at(1, dim), site.at(2, dim)}, dim);
}

Batched batch_clamp(BatchSite& site) {
  const std::int64_t dim = site.batched(1)                                      ? site.dim(1)
                           : site.entry_shape(0).rank() == site.op.shape.rank() ? site.common_dim()
                                                                                : 0;
  Instruction* low = scalar_or_array(site, 0, dim);
  Instruction* high = scalar_or_array(site, 2, dim);
  return site.emit({low, site.at(1, dim), high}, dim);
}

Batched batch_bitcast_convert(BatchSite& site) {
  const Shape &from = site.entry_shape(0), &to = site.op.shape;
  // The parts of a wider element are its last dim.
  const bool joins = to.rank() < from.rank();
  const std::int64_t dim = joins && site.dim(0) == from.rank() ? to.rank() : site.dim(0);
  return site.emit({site.at(0, dim)}, dim);
}

Batched batch_map(BatchSite& site) {
  const std::int64_t dim = site.common_dim();
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, dim));
  ir::DimensionsAttrs attrs;
  attrs.dims.resize(std::size_t(site.op.shape.rank()) + 1);
  std::iota(attrs.dims.begin(), attrs.dims.end(), 0);
  return site.emit(std::move(operands), attrs, dim);
}

}  // namespace tessera::transforms::batching
