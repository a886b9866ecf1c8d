// SPDX-License-Identifier: Apache-2.0
// Groups axes that move together, to make the search smaller.
#include "src/spmd/reshard/axis_groups.h"

#include <algorithm>

#include "src/base/contains.h"

namespace tessera::spmd::reshard {

std::vector<IndexList> axis_groups(IndexList axes, const std::vector<IndexList>& lists,
                                   const std::vector<IndexList>& sets) {
  auto listed = [&](int a) {
    return std::any_of(lists.begin(), lists.end(), [&](auto& l) { return contains(l, a); });
  };
  auto follows = [&](int a, int b) {
    // Axes that stand in sets only have no order but their own.
    if (!listed(a) && a > b) return false;
    for (const auto& set : sets) {
      if (contains(set, a) != contains(set, b)) return false;
    }
    for (const auto& list : lists) {
      auto i = std::find(list.begin(), list.end(), a);
      bool has_b = contains(list, b);
      if ((i != list.end()) != has_b) return false;
      if (has_b && (i + 1 == list.end() || *(i + 1) != b)) return false;
    }
    return true;
  };
  std::vector<IndexList> blocks;
  while (!axes.empty()) {
    // A run starts at an axis that follows none of the others.
    auto head = std::find_if(axes.begin(), axes.end(), [&](int b) {
      return std::none_of(axes.begin(), axes.end(), [&](int a) { return a != b && follows(a, b); });
    });
    IndexList run{*head};
    axes.erase(head);
    for (;;) {
      auto next =
          std::find_if(axes.begin(), axes.end(), [&](int b) { return follows(run.back(), b); });
      if (next == axes.end()) break;
      run.push_back(*next);
      axes.erase(next);
    }
    blocks.push_back(std::move(run));
  }
  return blocks;
}

}  // namespace tessera::spmd::reshard
