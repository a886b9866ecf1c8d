// SPDX-License-Identifier: Apache-2.0
// Dimensions for the arrays of a tree, as specs.
#include <tessera/detail/axes_tree.h>

namespace tessera {

AxesTree AxesTree::sequence(std::vector<AxesTree> children) {
  AxesTree out;
  out.given_ = out.several_ = true;
  out.children_ = std::move(children);
  return out;
}

ShardingTree AxesTree::specs(const std::string& axis, const std::string& from_end,
                             const std::string& what, Location location) const {
  if (several_) {
    std::vector<ShardingTree> out;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      out.push_back(
          children_[i].specs(axis, from_end, what + "[" + std::to_string(i) + "]", location));
    }
    return ShardingTree::sequence(std::move(out));
  }
  if (!given_) throw TypeError(what + " is empty", location);
  if (!dim_) return PartitionSpec();
  const bool negative = *dim_ < 0;
  if (negative && from_end.empty()) {
    throw ValueError(what + " is " + std::to_string(*dim_) + "; dims count from 0", location);
  }
  std::vector<SpecEntry> entries(std::size_t(negative ? -1 - *dim_ : *dim_) + 1);
  entries.back() = negative ? from_end : axis;
  return PartitionSpec::from_entries(std::move(entries));
}

}  // namespace tessera
