// SPDX-License-Identifier: Apache-2.0
// Functions of vectors along axes of arrays.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>

namespace tessera {

namespace internal {
Array apply_along_axis(const std::function<Array(Operand)>& f, std::int64_t axis, Operand x);
Array apply_over_axes(const std::function<Array(Operand, std::int64_t)>& f, Operand x,
                      const std::vector<std::int64_t>& axes);
}  // namespace internal

/// A function of each vector along an axis, for all others at once: x [I.., N, J..] and f: [N] ->
/// [K..] give [I.., K.., J..].
/// @code
/// Array sorted = apply_along_axis([](Array v) { return sort(v); }, 1, x);
/// @endcode
/// @throws ValueError if the axis is out of range.
template <class F>
requires(std::is_invocable_r_v<Array, F&, Array> || std::is_invocable_r_v<Array, F&, Operand>) Array
    apply_along_axis(F f, std::int64_t axis, Operand x) {
  if constexpr (std::is_invocable_r_v<Array, F&, Operand>) {
    return internal::apply_along_axis(f, axis, x);
  } else {
    return internal::apply_along_axis([&f](Operand v) -> Array { return f(v.array); }, axis, x);
  }
}
/// A function of an array and an axis, for one axis after another. `f` may keep the axis with size
/// 1 or remove it, in which case it is put back.
/// @code
/// Array sums = apply_over_axes([](Array v, std::int64_t axis) { return sum(v, axis); }, x, {0,
/// 2});
/// @endcode
/// @throws ShapeError if the function returns an array of another rank.
/// @throws ValueError if an axis is out of range.
template <class F>
requires(std::is_invocable_r_v<Array, F&, Array, std::int64_t> ||
         std::is_invocable_r_v<Array, F&, Operand, std::int64_t>) Array
    apply_over_axes(F f, Operand x, const std::vector<std::int64_t>& axes) {
  if constexpr (std::is_invocable_r_v<Array, F&, Operand, std::int64_t>) {
    return internal::apply_over_axes(f, x, axes);
  } else {
    return internal::apply_over_axes(
        [&f](Operand v, std::int64_t axis) -> Array { return f(v.array, axis); }, x, axes);
  }
}

}  // namespace tessera
