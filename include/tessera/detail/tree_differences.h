// SPDX-License-Identifier: Apache-2.0
// How two trees of arrays differ, for messages.
#pragma once

#include <functional>
#include <string>

#include <tessera/tree.h>

namespace tessera::internal {

/// What a message says of two trees that should be alike: "carry is [f32[3]] before and
/// [f32[3], f32[3]] after the body".
struct TreeNames {
  std::string root;           ///< the whole tree: "carry"
  std::string first, second;  ///< where they are found: "before", "after the body"
};

/// Where two trees of one C++ type differ: numbers of elements, keys, optionals, alternatives of
/// variants, static values, and arrays of which one is empty. Each place is named by its path, with
/// what either tree has there. Empty if they don't, whatever the types of their arrays.
std::string tree_differences(const std::function<void(TreeVisitor&)>& first,
                             const std::function<void(TreeVisitor&)>& second,
                             const TreeNames& names);
template <class T>
std::string tree_differences(const T& first, const T& second, const TreeNames& names) {
  return tree_differences([&](TreeVisitor& v) { visit_tree(const_cast<T&>(first), v); },
                          [&](TreeVisitor& v) { visit_tree(const_cast<T&>(second), v); }, names);
}

}  // namespace tessera::internal
