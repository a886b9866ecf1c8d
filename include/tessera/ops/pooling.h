// SPDX-License-Identifier: Apache-2.0
// Reductions over sliding windows.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/window_padding.h>
#include <tessera/tree.h>

/// @file
/// Reductions over sliding windows: pooling, and `reduce_window` for functions of your own.
///
/// @throws ShapeError if window, strides or padding don't fit the array.
/// @throws ValueError for sizes, strides and dilations below 1.
///
/// All messages name the caller's line.

namespace tessera {

/// Options of `reduce_window`. Lists have an entry per dimension of the array; empty ones stand for
/// ones.
struct WindowOptions {
  /// Distances between the window's places.
  std::vector<std::int64_t> strides{};
  /// Padding of the array, which takes no part in the reduction. Texts mean what they do without
  /// base_dilation.
  Padding padding = "VALID";
  /// Distances between the array's elements.
  std::vector<std::int64_t> base_dilation{};
  /// Distances between the window's elements.
  std::vector<std::int64_t> window_dilation{};
};

namespace internal {
/// A tree that isn't a single array.
template <class T>
concept SeveralArrays =
    TreeLike<T> && !ScalarLike<T> && !std::is_same_v<T, Array> && !std::is_same_v<T, Operand>;
/// Two lists of scalars to one.
using FlatReducer =
    std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;
std::vector<Array> reduce_window_core(const FlatReducer& f, const std::vector<Array>& arrays,
                                      const std::vector<Array>& init,
                                      const std::vector<std::int64_t>& window,
                                      const WindowOptions& options, Location location);
std::vector<Array> reduce_core(const FlatReducer& f, const std::vector<Array>& arrays,
                               const std::vector<Array>& init, const Axes& axes, Location location);
}  // namespace internal

/// Reduces along dimensions by a function (HLO `reduce`, jax.lax.reduce).
///
/// Sums, products, maxima, minima and the like have kernels and derivatives of their own.
/// @param x  The array.
/// @param init  A scalar to begin with. A plain number adopts x's dtype.
/// @param f  As of `reduce_window`.
/// @param axes  The dimensions; all by default.
/// @throws ValueError if an axis is out of range or given twice.
/// @throws DTypeError and TypeError as `reduce_window`.
template <class F>
requires std::is_invocable_r_v<Array, F&, Array, Array> Array reduce(Operand x, Operand init, F f,
                                                                     const Axes& axes = {}) {
  return internal::reduce_core(
      [&](const std::vector<Array>& a, const std::vector<Array>& b) {
        return std::vector<Array>{f(a[0], b[0])};
      },
      {x.array}, {init.array}, axes, x.location)[0];
}
/// The same for several arrays of one shape at once.
/// @param arrays  A tree of arrays.
/// @param init  A tree of scalars like it.
/// @param f  Takes two trees of scalars like `init` and returns one.
template <internal::SeveralArrays T, class F>
T reduce(const T& arrays, const T& init, F f, const Axes& axes = {},
         Location location = Location::current()) {
  static_assert(std::is_invocable_r_v<T, F&, T, T>,
                "tessera: reduce's function takes two trees like the initial values and returns "
                "one");
  return tree_unflatten(
      arrays, internal::reduce_core(
                  [&](const std::vector<Array>& a, const std::vector<Array>& b) {
                    return tree_leaves(T(f(tree_unflatten(init, a), tree_unflatten(init, b))));
                  },
                  tree_leaves(arrays), tree_leaves(init), axes, location));
}

/// Reduces the elements within each place of a window (HLO `reduce-window`, jax.lax.reduce_window).
///
/// Sums, products, maxima and minima of numbers have kernels of their own and derivatives for
/// windows of any size; other functions have derivatives for windows of up to 4096 elements.
/// @code
/// Array sums = reduce_window(x, 0, [](Array a, Array b) { return a + b; }, {1, 3, 3, 1});
/// @endcode
/// @param x  The array.
/// @param init  A scalar to begin each window with. A plain number adopts x's dtype.
/// @param f  Takes two scalars and returns one of their dtype; associative and commutative. It
///   can't use arrays that are being traced, or that are on devices of their own.
/// @param window  Size of the window in each dimension.
/// @param options  See WindowOptions.
/// @return An array of as many elements as the window has places.
/// @throws DTypeError if `init` has another dtype; TypeError if `f` returns anything but a scalar
///   of that dtype.
template <class F>
requires std::is_invocable_r_v<Array, F&, Array, Array> Array
reduce_window(Operand x, Operand init, F f, const std::vector<std::int64_t>& window,
              const WindowOptions& options = {}) {
  return internal::reduce_window_core(
      [&](const std::vector<Array>& a, const std::vector<Array>& b) {
        return std::vector<Array>{f(a[0], b[0])};
      },
      {x.array}, {init.array}, window, options, x.location)[0];
}
/// The same for several arrays of one shape at once.
/// @param arrays  A tree of arrays.
/// @param init  A tree of scalars like it.
/// @param f  Takes two trees of scalars like `init` and returns one.
template <internal::SeveralArrays T, class F>
T reduce_window(const T& arrays, const T& init, F f, const std::vector<std::int64_t>& window,
                const WindowOptions& options = {}, Location location = Location::current()) {
  static_assert(std::is_invocable_r_v<T, F&, T, T>,
                "tessera: reduce_window's function takes two trees like the initial values and "
                "returns one");
  return tree_unflatten(
      arrays, internal::reduce_window_core(
                  [&](const std::vector<Array>& a, const std::vector<Array>& b) {
                    return tree_leaves(T(f(tree_unflatten(init, a), tree_unflatten(init, b))));
                  },
                  tree_leaves(arrays), tree_leaves(init), window, options, location));
}

/// Options of `max_pool`, `min_pool` and `avg_pool`.
struct PoolOptions {
  /// Distances between the window's places, one per dimension of the window; empty: ones.
  std::vector<std::int64_t> strides{};
  /// Padding of the dimensions that the window slides along.
  Padding padding = "VALID";
  /// Whether an average counts padding as zeros; if false it is that of the elements that there
  /// are. Nothing else looks at it.
  bool count_include_pad = true;
};
/// Largest element within a window, as flax.linen.max_pool: x [B.., D.., C] -> [B.., E.., C] with
/// as many dimensions D as the window has. NaN if one is among them.
///
/// Where several elements are largest, derivatives are those of the first.
/// @code
/// Array y = max_pool(x, {2, 2}, {.strides = {2, 2}});   // [8, 32, 32, 16] -> [8, 16, 16, 16]
/// @endcode
/// @throws DTypeError for complex numbers.
Array max_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options = {});
/// Smallest element within a window, as `max_pool`.
Array min_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options = {});
/// Average of the elements within a window, as `max_pool`. Integers become f32.
Array avg_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options = {});

}  // namespace tessera
