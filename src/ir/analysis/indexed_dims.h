// SPDX-License-Identifier: Apache-2.0
// How the dims of a gather or scatter belong together: decoded here, for all that looks at one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ir/attributes.h"
#include "src/ir/instruction.h"

namespace tessera::ir {

/// Index vectors find windows of an array. The other array has these windows side by side: a
/// gather's result, a scatter's updates.
///
/// Example, x[3,9,5] indexed by i[9,4,2], along whose dim 2 the vectors are, which say dims 0 and
/// 2:
///
///     y[b,n,w] = x[i[b,n,0], b, i[b,n,1] + w]
///
///   mapped = {0, 2}           batch = {0, 1} of y, of sizes {9, 4}
///   window = {2} of x         window_of_other = {2} of y       sizes = {1, 1, w}
///   array_batching = {1}      batching = {0}: it goes along with the first dim of the batch
struct IndexedDims {
  std::int64_t vector_dim = 0;  ///< of the indices; their rank if vectors are single numbers
  Dims mapped;                  ///< which dim of the array each number of a vector is about
  Dims batch, batch_sizes;      ///< dims of the other array that count windows, as the indices do
  Dims window;                  ///< dims of the array that windows have in the other array, too
  Dims window_of_other;         ///< which of its dims those are
  Dims sizes;                   ///< of a window, for each dim of the array
  Dims array_batching;          ///< dims of the array in which a window is where its vector is
  Dims batching;                ///< and with which of `batch` each of them goes along

  /// Whether windows have the last dims of the other array.
  bool windows_are_last() const;
  /// The dim of the other array that a dim of the array is there; -1: none.
  std::int64_t in_other(std::int64_t dim) const;
};

IndexedDims indexed_dims(const GatherAttrs& gather, const Shape& array, const Shape& result);
IndexedDims indexed_dims(const ScatterAttrs& scatter, const Shape& array, const Shape& updates);
/// Of a gather or scatter.
IndexedDims indexed_dims(const Instruction& i);

/// y[a,j,b] = x[a, i[a,j,b], b] for x of that rank, where dim is that of j: along one dim, with all
/// others the same in all three arrays.
GatherAttrs gather_along(std::int64_t rank, std::int64_t dim);
/// y[..,j,:] = x[.., i[..,j], :] for x of these dims: rows of matrices.
GatherAttrs gather_of_rows(const Dims& dims);

}  // namespace tessera::ir
