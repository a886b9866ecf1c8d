// SPDX-License-Identifier: Apache-2.0
// Copies of arrays with indexed elements changed, and reads with a choice of what happens out of
// range.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/gather_scatter.h>
#include <tessera/ops/indexing.h>

/// @file
/// Copies of arrays with indexed elements changed: jax.numpy's x.at[...].
///
/// @throws ValueError if a number or an axis is out of range, and as `index`.
/// @throws ShapeError if values don't broadcast to what is indexed.
/// @throws DTypeError if indices aren't integers, or the values' dtype doesn't fit.
///
/// All messages name the caller's line.

namespace tessera {

/// Elements of an array, to be read or changed: made by `at`.
///
/// Each change is a copy of the array. Values broadcast to the shape of `index(x, items)` and are
/// converted to the array's dtype. If an element is indexed several times, `set` stores one of the
/// values and the others apply one after the other. Negative indices count from the end; updates at
/// array indices out of range are dropped unless `options.mode` says otherwise.
class IndexedArray {
 public:
  /// For `at`.
  IndexedArray(Operand x, std::vector<IndexItem> items)
      : x_(std::move(x)), items_(std::move(items)) {}

  /// The elements, as `index`; in mode `fill` those out of range are `fill_value`.
  Array get(const IndexOptions& options = {}) const;
  /// x[...] = values.
  Array set(Operand values, const IndexOptions& options = {}) const;
  /// x[...] += values. For pred: or.
  Array add(Operand values, const IndexOptions& options = {}) const;
  /// x[...] -= values.
  Array subtract(Operand values, const IndexOptions& options = {}) const;
  /// x[...] *= values. For pred: and.
  Array multiply(Operand values, const IndexOptions& options = {}) const;
  /// x[...] /= values. Integers become f32, everywhere.
  Array divide(Operand values, const IndexOptions& options = {}) const;
  /// x[...] = minimum(x[...], values).
  Array min(Operand values, const IndexOptions& options = {}) const;
  /// x[...] = maximum(x[...], values).
  Array max(Operand values, const IndexOptions& options = {}) const;
  /// x[...] = power(x[...], values).
  Array power(Operand values, const IndexOptions& options = {}) const;
  /// x[...] = f(x[...]) for an elementwise f; elements that are indexed n times become f(f(..)). If
  /// they aren't, by `unique_indices` or because no array is among the indices, this has a
  /// derivative and f may capture traced arrays.
  Array apply(const ElementwiseFunction& f, const IndexOptions& options = {}) const;

 private:
  Operand x_;
  std::vector<IndexItem> items_;
};

/// The elements of x at an index, to be changed or read (jax.numpy's x.at[...]). Entries are those
/// of `index`.
/// @code
/// at(x, {0}).set(1)                          // x.at[0].set(1)
/// at(x, {Slice{}, ids}).add(updates)         // x.at[:, ids].add(updates)
/// at(x, {ids}).get({.mode = IndexMode::fill, .fill_value = 0})
/// at(x, {x < 0}).set(0)                      // a mask, outside of traces
/// @endcode
IndexedArray at(Operand x, std::vector<IndexItem> items);

/// Copy of x with one element per index replaced: out[i, indices[i, j]] = values[i, j] for axis 1
/// of 2, the inverse of `take_along_axis`. `values` broadcasts to the indices. Without an axis x is
/// flattened in between. Indices out of range are dropped by default.
/// @throws ShapeError if x and the indices differ in rank.
Array put_along_axis(Operand x, Operand indices, Operand values, std::optional<std::int64_t> axis,
                     IndexMode mode = IndexMode::automatic);
/// Copy of x with elements of the flattened array replaced; `values` is repeated as needed. Indices
/// out of range are dropped by default; mode `clip` takes negative ones as 0.
/// @throws ValueError if there are indices and no values.
Array put(Operand x, Operand indices, Operand values, IndexMode mode = IndexMode::automatic);
/// Copy of x with the elements where `mask` is nonzero replaced by `values` in order, which are
/// repeated as needed.
/// @throws ShapeError if the mask has another number of elements.
/// @throws ValueError if there are no values.
Array place(Operand x, Operand mask, Operand values);
/// Copy of x with the main diagonal x[i, i, ..] replaced by a scalar or, in order and repeated as
/// needed, the elements of an array.
/// @throws ShapeError for ranks below 2, and for ranks above 2 unless all sizes are equal.
Array fill_diagonal(Operand x, Operand value);

}  // namespace tessera
