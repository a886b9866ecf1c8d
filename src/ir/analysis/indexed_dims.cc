// SPDX-License-Identifier: Apache-2.0
// Decodes the dimension numbers of gathers and scatters.
#include "src/ir/analysis/indexed_dims.h"

#include "src/base/contains.h"

namespace tessera::ir {
namespace {

Dims dims_besides(std::int64_t rank, const Dims& a, const Dims& b = {}) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  }
  return out;
}

/// `dropped`: dims of the array that windows don't have in the other one. `index_batching`: dims of
/// the indices.
IndexedDims decoded(const Shape& array, const Shape& other, std::int64_t vector_dim,
                    const Dims& mapped, const Dims& window_of_other, const Dims& dropped,
                    const Dims& array_batching, const Dims& index_batching) {
  IndexedDims out;
  out.vector_dim = vector_dim;
  out.mapped = mapped;
  out.batch = dims_besides(other.rank(), window_of_other);
  for (const std::int64_t d : out.batch) out.batch_sizes.push_back(other.dim(d));
  out.window = dims_besides(array.rank(), dropped, array_batching);
  out.window_of_other = window_of_other;
  out.sizes.assign(array.dims.size(), 1);
  for (std::size_t k = 0; k < out.window.size(); ++k) {
    out.sizes[std::size_t(out.window[k])] = other.dim(window_of_other[k]);
  }
  out.array_batching = array_batching;
  for (const std::int64_t d : index_batching) {
    out.batching.push_back(d > vector_dim ? d - 1 : d);
  }
  return out;
}

}  // namespace

GatherAttrs gather_along(std::int64_t rank, std::int64_t dim) {
  GatherAttrs a;
  a.collapsed_slice_dims = {dim};
  a.start_index_map = {dim};
  a.slice_sizes = Dims(std::size_t(rank), 1);
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == dim) continue;
    a.operand_batching_dims.push_back(d);
    a.start_indices_batching_dims.push_back(d);
  }
  a.index_vector_dim = rank;
  return a;
}

GatherAttrs gather_of_rows(const Dims& dims) {
  const std::int64_t columns = std::int64_t(dims.size()) - 1;
  GatherAttrs a = gather_along(columns, columns - 1);
  a.offset_dims = {columns};
  a.slice_sizes.push_back(dims.back());
  return a;
}

bool IndexedDims::windows_are_last() const {
  for (std::size_t k = 0; k < window.size(); ++k) {
    if (window_of_other[k] != std::int64_t(batch.size() + k)) return false;
  }
  return true;
}

std::int64_t IndexedDims::in_other(std::int64_t dim) const {
  for (std::size_t k = 0; k < window.size(); ++k) {
    if (window[k] == dim) return window_of_other[k];
  }
  return -1;
}

IndexedDims indexed_dims(const GatherAttrs& gather, const Shape& array, const Shape& result) {
  IndexedDims out = decoded(array, result, gather.index_vector_dim, gather.start_index_map,
                            gather.offset_dims, gather.collapsed_slice_dims,
                            gather.operand_batching_dims, gather.start_indices_batching_dims);
  // Those that are dropped may be empty.
  out.sizes = gather.slice_sizes;
  return out;
}

IndexedDims indexed_dims(const ScatterAttrs& scatter, const Shape& array, const Shape& updates) {
  return decoded(array, updates, scatter.index_vector_dim, scatter.scatter_dims_to_operand_dims,
                 scatter.update_window_dims, scatter.inserted_window_dims,
                 scatter.input_batching_dims, scatter.scatter_indices_batching_dims);
}

IndexedDims indexed_dims(const Instruction& i) {
  const Shape& array = i.operand(0)->shape;
  return i.is(Opcode::gather)
             ? indexed_dims(i.get<GatherAttrs>(), array, i.shape)
             : indexed_dims(i.get<ScatterAttrs>(), array, i.operands().back()->shape);
}

}  // namespace tessera::ir
