// SPDX-License-Identifier: Apache-2.0
// Sorting and searching.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <tessera/array.h>

/// @file
/// Sorting and searching, as in numpy and JAX.
///
/// NaN sorts after all numbers and -0.0 equals 0.0; complex numbers are ordered by their real, then
/// by their imaginary part. Sorts are stable. Arrays sharded along the sorted dimension are sorted
/// by a distributed columnsort and need not be gathered.
///
/// @throws ValueError if an axis is out of range.
///
/// All messages name the caller's line.

namespace tessera {

/// Sorts along an axis, the last by default; std::nullopt sorts the flattened array.
/// @param x  The array; any dtype.
/// @param axis  The axis.
/// @param descending  Largest element first; NaN comes first, too.
Array sort(Operand x, std::optional<std::int64_t> axis = -1, bool descending = false);
/// Indices (s32) that sort x along an axis; equal elements keep their order, also descending.
Array argsort(Operand x, std::optional<std::int64_t> axis = -1, bool descending = false);
/// The k largest elements of the last dimension in descending order, and their indices (s32):
/// x [.., N] -> [.., k] and [.., k]. NaN counts as largest and 0.0 as larger than -0.0; of equal
/// elements the first comes first.
/// @throws ValueError if k isn't in [0, N].
/// @throws ShapeError for a scalar.
/// @throws DTypeError for complex numbers.
std::pair<Array, Array> top_k(Operand x, std::int64_t k);
/// Binary search: for each value the index (s32) at which to insert it into a sorted vector so that
/// it stays sorted. sorted [N], values [K..] -> [K..].
/// @param sorted  A vector in ascending order.
/// @param values  Any shape; both are promoted to a common dtype.
/// @param right  Insert after equal elements; by default before them.
/// @throws ShapeError if `sorted` isn't a vector.
Array searchsorted(Operand sorted, Operand values, bool right = false);

}  // namespace tessera
