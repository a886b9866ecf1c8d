// SPDX-License-Identifier: Apache-2.0
// Sorts by several keys, partitions, the largest elements along any axis.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/sorting.h>

/// @file
/// Sorts by several keys and what follows from sorting. Elements are ordered as by `sort`; sorts
/// are stable.
///
/// @throws ValueError if an axis or a count is out of range.
/// @throws ShapeError if shapes differ.
///
/// All messages name the caller's line.

namespace tessera {

/// Sorts arrays of one shape along an axis by the first `num_keys` of them (jax.lax.sort): ties of
/// the first are ordered by the second, and so on; the other arrays are moved along.
/// @code
/// auto sorted = sort_together({year, month, sales}, 2);
/// @endcode
std::vector<Array> sort_together(const std::vector<Array>& arrays, std::int64_t num_keys = 1,
                                 std::int64_t axis = -1, Location location = Location::current());
/// Sorts keys along an axis, and values of the same shape with them.
std::pair<Array, Array> sort_key_val(Operand keys, Operand values, std::int64_t axis = -1);
/// Indices (s32) that sort by several keys of one shape, as numpy.lexsort: the last key is the
/// first to be looked at.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1,
              Location location = Location::current());
/// The elements along an axis in an order in which the one at position `kth` (negative: from the
/// end) is where sorting would put it, no earlier one is larger and no later one smaller.
Array partition(Operand x, std::int64_t kth, std::int64_t axis = -1);
/// Indices (s32) that partition x, as `partition`.
Array argpartition(Operand x, std::int64_t kth, std::int64_t axis = -1);
/// `top_k` along any axis: x [.., N, ..] -> [.., k, ..] and indices (s32).
std::pair<Array, Array> top_k(Operand x, std::int64_t k, std::int64_t axis);
/// The k largest elements along an axis in descending order, and their indices (s32):
/// jax.lax.approx_max_k, but exact.
/// @throws DTypeError unless x is floating.
std::pair<Array, Array> approx_max_k(Operand x, std::int64_t k, std::int64_t axis = -1);
/// The k smallest elements along an axis in ascending order, and their indices (s32).
/// @throws DTypeError unless x is floating.
std::pair<Array, Array> approx_min_k(Operand x, std::int64_t k, std::int64_t axis = -1);
/// `searchsorted` in a vector that `sorter` sorts: searchsorted(x[sorter], values).
/// @throws DTypeError if the sorter isn't integer.
Array searchsorted(Operand x, Operand values, Operand sorter, bool right);

}  // namespace tessera
