// SPDX-License-Identifier: Apache-2.0
// Order. NaN stands after all numbers, -0 and 0 are equal; complex numbers are ordered by real,
// then by imaginary part.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <tessera/array.h>

namespace tessera {

/// Sorted along an axis (the flattened array without one).
Array sort(Operand x, std::optional<std::int64_t> axis = -1, bool descending = false);
/// Positions (s32) that sort; equal elements keep their order.
Array argsort(Operand x, std::optional<std::int64_t> axis = -1, bool descending = false);
/// The k largest elements of the last dim, in descending order, and their positions (s32). NaN
/// counts as largest, 0 as larger than -0.
std::pair<Array, Array> top_k(Operand x, std::int64_t k);
/// Where each value would be put into a sorted vector (s32): before equal elements, or after them.
Array searchsorted(Operand sorted, Operand values, bool right = false);

}  // namespace tessera
