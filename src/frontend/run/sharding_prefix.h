// SPDX-License-Identifier: Apache-2.0
// Matching of trees of shardings with trees of arrays.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

#include "src/base/arrays/shape.h"

namespace tessera::frontend {

/// One leaf of `prefix` per array of the tree. ValueError naming `what` ("in_shardings"), the key
/// path and the lengths where the structures differ; all mismatches are listed. `shown`: how a
/// message shows a part of the prefix; by default as its text.
std::vector<ShardingTree> broadcast_prefix(
    const ShardingTree& prefix, const std::function<void(internal::TreeVisitor&)>& walk,
    const std::string& what, Location location,
    const std::function<std::string(const ShardingTree&)>& shown = &ShardingTree::to_string);

/// The same where leaves may be Formats; elsewhere these are a ValueError.
std::vector<ShardingTree> broadcast_formats(const ShardingTree& prefix,
                                            const std::function<void(internal::TreeVisitor&)>& walk,
                                            const std::string& what, Location location);
/// ValueError that begins with `who` if a leaf has a layout for another rank.
void check_layout_fits(const ShardingTree& leaf, std::int64_t rank, const std::string& who,
                       Location location);

/// A leaf as a sharding; empty: not specified. `none_is_replicated`: pjit's meaning of nullptr
/// under a mesh. RuntimeError for a spec without a mesh in scope.
std::optional<Sharding> resolve_leaf(const ShardingTree& leaf, const std::string& what,
                                     bool none_is_replicated, bool allow_unconstrained,
                                     Location location);

/// Of AUTO a sharding on its mesh; empty for all others. RuntimeError without any mesh.
std::optional<Sharding> mesh_of_auto(const ShardingTree& leaf, const std::string& what,
                                     Location location);

/// The checks that don't depend on the arrays, for all leaves of a tree: for each spec there must
/// be a mesh in scope that has its axes. RuntimeError or ShardingError naming the position in the
/// tree and the function.
void check_resolvable(const ShardingTree& tree, const std::string& what,
                      const std::string& function, bool none_is_replicated, Location location);

/// A spec on a mesh; ShardingError and DuplicateSpecError begin with `who`.
Sharding named_sharding(const Mesh& mesh, const PartitionSpec& spec, const std::string& who,
                        Location location);

/// ValueError if FROM_GDA stands in the tree.
void refuse_from_gda(const ShardingTree& tree, const std::string& what, Location location);

/// The tree `tree(...)` of what `dict(...)` states by the names of arguments; others are returned
/// unchanged. `names` are those of all arguments, `positions` the traced ones. ValueError listing
/// the names if one isn't known or is that of a static argument.
ShardingTree by_position(const ShardingTree& tree, const std::vector<std::string>& names,
                         const std::vector<int>& positions, const std::string& what,
                         Location location);

/// "'a', 'b'".
std::string quoted_names(const std::vector<std::string>& names);

/// Checks that the sharding fits an array of this shape: ShardingError for a spec longer than the
/// rank, IndivisibleError, both prefixed by `who` ("argument x[0] of 'f'").
void check_fits(const Sharding& sharding, const std::vector<std::int64_t>& shape,
                const std::string& who, bool allow_uneven, Location location);
/// Also that the parts can be joined: DTypeError for maxima and minima of complex numbers.
void check_fits(const Sharding& sharding, const Shape& shape, const std::string& who,
                bool allow_uneven, Location location);

/// Checks that need no mesh, when a function is wrapped: axes repeated in a spec, UNCONSTRAINED.
void check_leaves(const ShardingTree& tree, const std::string& what, Location location);

}  // namespace tessera::frontend
