// SPDX-License-Identifier: Apache-2.0
// Arrays that are to be sharded alike.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <tessera/placement.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {
std::pair<std::vector<Array>, std::vector<Array>> shard_alike_leaves(
    const std::vector<Array>& x, const std::vector<Array>& y,
    const std::function<void(TreeVisitor&)>& walk_x,
    const std::function<void(TreeVisitor&)>& walk_y, Location location);
}  // namespace internal

/// Returns both values, array by array with one sharding (jax.experimental.shard_alike): what is
/// known of the sharding of either is known of the other. Where both have shardings that differ,
/// one is resharded. Derivatives pass through; in per-device code it returns the values as they
/// are.
/// @code
/// // Zeros that are sharded as the parameters, however these are.
/// auto init = jit([](Array w) { return shard_alike(w, zeros(w.shape())).second; });
/// @endcode
/// @param x  A tree of arrays.
/// @param y  A tree of the same structure, of arrays of the same shapes; dtypes may differ.
/// @param location  The line named in messages.
/// @throws ShapeError if two shapes differ.
/// @throws ValueError if the trees do.
template <TreeLike T, TreeLike U>
std::pair<T, U> shard_alike(const T& x, const U& y, Location location = Location::current()) {
  auto [a, b] = internal::shard_alike_leaves(tree_leaves(x), tree_leaves(y), internal::walker(x),
                                             internal::walker(y), location);
  return {tree_unflatten(x, a), tree_unflatten(y, b)};
}

}  // namespace tessera
