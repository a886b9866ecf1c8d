// SPDX-License-Identifier: Apache-2.0
// Batches what says how values lie on devices, code per device and its collectives.
#include <algorithm>

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

/// Propagation may split the batch as it likes.
Batched batch_sharding_constraint(BatchSite& site) {
  auto attrs = site.op.get<ir::ShardingConstraintAttrs>();
  const std::int64_t dim = site.dim(0);
  attrs.unspecified_dims = shifted(attrs.unspecified_dims, dim);
  attrs.unspecified_dims.push_back(dim);
  std::sort(attrs.unspecified_dims.begin(), attrs.unspecified_dims.end());
  return site.emit({site.array(0)}, attrs, dim);
}

Batched batch_propagation_barrier(BatchSite& site) {
  return site.emit({site.array(0)}, site.dim(0));
}

namespace {

/// Each device has all entries of its shards; automatic axes may split them.
void add_batch(std::vector<TensorSharding>* shardings, const Dims& dims,
               const ir::ManualComputationAttrs& attrs) {
  const bool automatic =
      attrs.mesh != nullptr && attrs.manual_axes.size() < attrs.mesh->axes.size();
  for (std::size_t k = 0; k < dims.size() && k < shardings->size(); ++k) {
    TensorSharding& s = (*shardings)[k];
    if (dims[k] == kNotBatched || s.kind != TensorSharding::Kind::axes) continue;
    DimSharding whole;
    whole.open = automatic && s.mesh != nullptr;
    s.dims.insert(s.dims.begin() + std::ptrdiff_t(dims[k]), whole);
  }
}

}  // namespace

Batched batch_manual_computation(BatchSite& site) {
  Dims dims;
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    operands.push_back(packed(site.b, site.operand(i)));
  }
  for (const Batched& leaf : site.operand_leaves()) dims.push_back(leaf.dim);
  const BatchedComputation body = site.batcher.computation(*site.op.called(0), dims);
  auto attrs = site.op.get<ir::ManualComputationAttrs>();
  add_batch(&attrs.in_shardings, dims, attrs);
  add_batch(&attrs.out_shardings, body.out_dims, attrs);
  const Shape shape = batched_shape(site.op.shape, body.out_dims, site.size());
  Instruction* made =
      site.emit_calling(shape, std::move(operands), std::move(attrs), {body.computation});
  return unpacked(site.b, made, body.out_dims);
}

namespace {

/// A collective that treats all elements of an operand alike: each stays as it is.
Batched each_as_it_is(BatchSite& site) {
  std::vector<Instruction*> operands;
  Dims dims;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    operands.push_back(site.array(i));
    dims.push_back(site.dim(i));
  }
  return site.emit(std::move(operands), site.op.attrs, dims);
}

/// A collective that joins or splits one dim, the same of all operands.
Batched along_dim(BatchSite& site) {
  auto attrs = site.op.get<ir::CollectiveAttrs>();
  std::int64_t& along = attrs.dims.at(0);
  if (site.operand_count() == 1) {
    along = shifted(along, site.dim(0));
    return site.emit({site.array(0)}, attrs, site.dim(0));
  }
  std::vector<Instruction*> operands;
  Dims dims;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    dims.push_back(site.batched(i) ? std::max(site.dim(i), along + 1) : kNotBatched);
    operands.push_back(site.batched(i) ? site.at(i, dims.back()) : site.array(i));
  }
  return site.emit(std::move(operands), attrs, dims);
}

}  // namespace

Batched batch_all_reduce(BatchSite& site) { return each_as_it_is(site); }

Batched batch_collective(BatchSite& site) {
  if (flatten(site.op.shape).size() != site.operand_count()) {
    site.not_implemented("it writes into an operand in place");
  }
  return each_as_it_is(site);
}

Batched batch_all_gather(BatchSite& site) { return along_dim(site); }
Batched batch_reduce_scatter(BatchSite& site) { return along_dim(site); }

Batched batch_all_to_all(BatchSite& site) {
  if (!site.op.get<ir::CollectiveAttrs>().dims.empty()) return along_dim(site);
  // One operand for each device, all of one shape.
  const std::int64_t dim = site.common_dim();
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, dim));
  return site.emit(std::move(operands), dim);
}

}  // namespace tessera::transforms::batching
