// SPDX-License-Identifier: Apache-2.0
// The structure of a tree of arrays as JSON, and the names of its arrays in files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tessera/tree.h>

#include "src/base/files/json_text.h"

namespace tessera::frontend {

using TreeWalk = std::function<void(internal::TreeVisitor&)>;

/// A node is {"array": i}, {"none": true}, {"static": text} or {"kind": "map", "keys": [..],
/// "children": [..]}; of a variant it is {"alternative": k, "of": node}.
struct TreeStructure {
  Json root;
  /// Of each array: as `tree_paths`, and keys and positions joined by dots: "layers.0.w". A tree
  /// that is one array has the path "" and the name "array".
  std::vector<std::string> paths, names;
};
TreeStructure structure_of(const TreeWalk& walk);
/// Deeper trees aren't read.
inline constexpr std::size_t kMaxTreeDepth = 200;

/// Where the second differs from the first, one line each and at most ten; static values aside.
/// IoError that begins with `who` if the first, which comes from a file, is no structure.
std::vector<std::string> structure_differences(const Json& saved, const Json& requested,
                                               const std::string& who);
/// The texts of the static values, in the order of the walk.
std::vector<std::string> static_texts(const Json& root);
/// Assigns arrays and static values, in order, to a tree of that structure. ValueError for a static
/// value that the tree's type can't have.
void assign_tree(const TreeWalk& walk, const std::vector<Array>& arrays,
                 const std::vector<std::string>& statics);

}  // namespace tessera::frontend
