// SPDX-License-Identifier: Apache-2.0
// Tests of derivatives against differences.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/held_arguments.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `check_grads`.
struct CheckGradsOptions {
  /// Derivatives up to this order are checked.
  int order = 1;
  /// Whether derivatives in forward mode (jvp) are.
  bool forward = true;
  /// Whether those in reverse mode (vjp) are.
  bool reverse = true;
  /// Absolute and relative tolerance; by default of the least precise dtype met: 1e-5 for f64, 2e-3
  /// for f32, 0.1 for less.
  std::optional<double> atol{}, rtol{};
  /// Half the distance between the points whose difference is taken.
  double eps = 1.0 / 2048;
};

namespace internal {
using FlatCheckedFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;
void check_grads_core(const FlatCheckedFunction& f, const std::vector<Array>& arguments,
                      const CheckGradsOptions& options, Location location);
}  // namespace internal

/// Checks derivatives of a function at a point against differences, in random directions that are
/// the same each time (jax.test_util.check_grads).
/// @code
/// check_grads([](Array x) { return my_op(x); }, std::tuple(x), {.order = 2});
/// @endcode
/// @param f  A function of trees of Array. Arrays of integers are not moved.
/// @param arguments  A tuple of its arguments; where it is kinked or steep differences say little.
/// @throws ValueError that names the mode, the order, both values and their difference, if they
///   disagree or are not finite.
template <class F, class... A>
void check_grads(F f, const std::tuple<A...>& arguments, const CheckGradsOptions& options = {},
                 Location location = Location::current()) {
  static_assert((TreeLike<A> && ...), "tessera: check_grads takes trees of Array");
  internal::check_grads_core(
      [&](const std::vector<Array>& leaves) {
        return internal::leaves_in_order(
            std::apply(f, internal::trees_in_order(arguments, leaves)));
      },
      std::apply([](const auto&... a) { return internal::leaves_in_order(a...); }, arguments),
      options, location);
}

}  // namespace tessera
