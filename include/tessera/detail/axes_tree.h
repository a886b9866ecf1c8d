// SPDX-License-Identifier: Apache-2.0
// Dimensions for the arrays of a tree.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>
#include <tessera/sharding/sharding_tree.h>

namespace tessera {

/// Dimensions for `vmap` and `smap`, as a tree prefix: a dimension, nullptr for none, or
/// `axes_tree(0, nullptr)` with one for each element of a tuple, vector or struct.
class AxesTree {
 public:
  /// Nothing given.
  AxesTree() = default;
  /// No dimension.
  AxesTree(std::nullptr_t) : given_(true) {}
  /// A dimension, from 0; of `vmap` also from the end, from -1.
  AxesTree(int dim) : given_(true), dim_(dim) {}
  /// Returns a node; see `axes_tree`.
  static AxesTree sequence(std::vector<AxesTree> children);
  /// False if default constructed.
  bool given() const { return given_; }
  /// Returns the specs with `axis` on these dimensions; for internal use.
  /// @throws ValueError for a negative dimension.
  ShardingTree specs(const std::string& axis, const std::string& what, Location location) const {
    return specs(axis, "", what, location);
  }
  /// The same with `from_end` on position -1 - d of the specs where a dimension d is negative,
  /// unless that is empty; for internal use.
  ShardingTree specs(const std::string& axis, const std::string& from_end, const std::string& what,
                     Location location) const;

 private:
  bool given_ = false, several_ = false;
  std::optional<int> dim_;
  std::vector<AxesTree> children_;
};
/// Returns dimensions for the elements of a tuple, vector or struct, in order.
template <class... T>
AxesTree axes_tree(T&&... children) {
  return AxesTree::sequence({AxesTree(std::forward<T>(children))...});
}

}  // namespace tessera
