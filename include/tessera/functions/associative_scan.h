// SPDX-License-Identifier: Apache-2.0
// Scans by an associative function, in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/tree_differences.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `associative_scan`.
struct AssociativeScanOptions {
  /// Go from the last element to the first.
  bool reverse = false;
  /// The dimension of each array along which its elements lie; negative ones count from the end.
  std::int64_t axis = 0;
};

namespace internal {
/// Elements of two lists of arrays, along the axis, to one.
using FlatCombine =
    std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;
std::vector<Array> associative_scan_core(const FlatCombine& f, const std::vector<Array>& elements,
                                         const std::vector<std::string>& paths,
                                         const AssociativeScanOptions& options, Location location);
}  // namespace internal

/// All partial results `f(...f(f(x0, x1), x2)..., xk)` of an associative function
/// (jax.lax.associative_scan): log2(N) steps of whole-array operations, where `scan` takes N.
/// @code
/// Array sums = associative_scan([](Array a, Array b) { return a + b; }, xs);   // cumsum
/// // Products of matrices along dimension 0.
/// Array products = associative_scan([](Array a, Array b) { return matmul(a, b); }, matrices);
/// @endcode
/// @param f  Takes two trees like `elements`, arrays of several elements each, and combines them
///   one by one: it must be vectorised along the axis, and associative. Returns such a tree.
/// @param elements  A tree of arrays of N elements each along `options.axis`.
/// @return A tree like `elements`.
/// @throws ValueError if there are no arrays, or they have different numbers of elements.
/// @throws TypeError if `f` changes the tree, a shape or a dtype.
template <class F, TreeLike T>
T associative_scan(F f, const T& elements, const AssociativeScanOptions& options = {},
                   Location location = Location::current()) {
  static_assert(std::is_invocable_r_v<T, F&, T, T>,
                "tessera: associative_scan's function takes two trees like the elements and "
                "returns one");
  const auto combine = [&](const std::vector<Array>& a, const std::vector<Array>& b) {
    const T given = tree_unflatten(elements, a);
    const T result(f(given, tree_unflatten(elements, b)));
    const std::string differ = internal::tree_differences(
        given, result, {"elements", "as the function is given them", "as it returns them"});
    if (!differ.empty()) {
      throw TypeError(
          "associative_scan: the function must return a tree like those it takes: " + differ,
          location);
    }
    return tree_leaves(result);
  };
  return tree_unflatten(elements,
                        internal::associative_scan_core(combine, tree_leaves(elements),
                                                        tree_paths(elements), options, location));
}

}  // namespace tessera
