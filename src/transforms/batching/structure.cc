// SPDX-License-Identifier: Apache-2.0
// Batches what passes values on: tuples, barriers, tokens.
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

Batched batch_tuple(BatchSite& site) {
  Batched out;
  out.is_tuple = true;
  for (std::size_t k = 0; k < site.operand_count(); ++k) out.elements.push_back(site.operand(k));
  return out;
}

Batched batch_get_tuple_element(BatchSite& site) {
  return site.operand(0).elements.at(std::size_t(site.op.get<ir::GetTupleElementAttrs>().index));
}

Batched batch_opt_barrier(BatchSite& site) {
  const Dims dims = dims_of(site.operand(0));
  return site.emit({packed(site.b, site.operand(0))}, site.op.attrs, dims);
}

Batched batch_add_dependency(BatchSite& site) {
  const Dims dims = dims_of(site.operand(0));
  return site.emit({packed(site.b, site.operand(0)), site.array(1)}, site.op.attrs, dims);
}

/// Tokens are the same for all entries.
Batched batch_after_all(BatchSite& site) {
  std::vector<Instruction*> tokens;
  for (std::size_t k = 0; k < site.operand_count(); ++k) tokens.push_back(site.array(k));
  return site.emit(std::move(tokens), kNotBatched);
}

/// All entries have the same size.
Batched batch_get_dimension_size(BatchSite& site) {
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  attrs.dims = shifted(attrs.dims, site.dim(0));
  return site.emit({site.array(0)}, attrs, kNotBatched);
}

Batched batch_set_dimension_size(BatchSite& site) {
  if (site.batched(1)) {
    site.not_implemented(
        "the entries of a batch are of one size, and here each would have its own");
  }
  auto attrs = site.op.get<ir::DimensionsAttrs>();
  attrs.dims = shifted(attrs.dims, site.dim(0));
  return site.emit({site.array(0), site.array(1)}, attrs, site.dim(0));
}

}  // namespace tessera::transforms::batching
