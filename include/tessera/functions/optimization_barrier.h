// SPDX-License-Identifier: Apache-2.0
// A wall for the optimiser.
#pragma once

#include <vector>

#include <tessera/tree.h>

namespace tessera {

namespace internal {
std::vector<Array> optimization_barrier_leaves(const std::vector<Array>& leaves, Location location);
}  // namespace internal

/// Returns a tree of arrays as it is (jax.lax.optimization_barrier). All of its arrays are computed
/// before any that is returned is used, and the optimiser moves nothing across and joins nothing
/// on one side with what is on the other. Its derivative is a barrier for the tangents.
/// @code
/// auto [first, second] = optimization_barrier(std::pair(f(x), g(x)));
/// @endcode
template <TreeLike T>
T optimization_barrier(const T& tree, Location location = Location::current()) {
  return tree_unflatten(tree, internal::optimization_barrier_leaves(tree_leaves(tree), location));
}

}  // namespace tessera
