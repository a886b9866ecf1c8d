// SPDX-License-Identifier: Apache-2.0
// Shardings of trees of arrays.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/partition_spec.h>
#include <tessera/sharding.h>
#include <tessera/sharding/format.h>

namespace tessera {

/// Type of UNSPECIFIED.
struct Unspecified {};
/// No sharding is requested: an argument keeps its own, and that of a result is chosen by the
/// compiler.
inline constexpr Unspecified UNSPECIFIED{};

/// Type of FROM_GDA.
struct FromGda {};
/// An argument is sharded as the array that is passed, which must be placed on a mesh
/// (jax.experimental.pjit.FROM_GDA). Valid for arguments only.
inline constexpr FromGda FROM_GDA{};

/// Type of AUTO.
class Auto {
 public:
  /// AUTO on the mesh in scope.
  constexpr Auto() = default;
  /// Returns AUTO on that mesh.
  Auto operator()(const Mesh& mesh) const;
  /// The mesh, as a sharding on it; empty: that in scope.
  const Sharding& on() const { return on_; }

 private:
  Sharding on_;
};
/// The compiler chooses the sharding of an argument or result: that with which the program costs
/// least (Layouts::solved), or that which the other annotations imply (Layouts::propagated). Valid
/// in `in_shardings` and `out_shardings` of jit and pjit; arguments of a call are moved there, and
/// `Compiled::input_shardings()` tells what was chosen (jax.experimental.pjit.AUTO).
/// @code
/// auto g = jit(f, {.in_shardings = AUTO(mesh), .out_shardings = AUTO(mesh)});
/// auto compiled = g.lower(shape_dtype_struct({64, 64}, DType::f32)).compile();
/// Array x = device_put(ones({64, 64}), compiled.input_shardings()[0]);
/// @endcode
inline const Auto AUTO{};

/// Shardings for a tree of arrays, as a prefix of that tree (JAX's tree prefixes).
///
/// A leaf applies to all arrays below it: a Sharding, a PartitionSpec (on the mesh in scope),
/// nullptr, UNSPECIFIED, FROM_GDA, AUTO or, for `jit` and `device_put`, a Format. `tree(...)` lists
/// the shardings of the elements of a tuple, vector or struct in order, `dict(...)` those of a map
/// or of a struct with named fields by key.
/// @code
/// jit(f, {.in_shardings = tree(P("x"), nullptr), .out_shardings = P("x")});
/// @endcode
/// If it doesn't match the tree that it is used for, that function throws a ValueError that lists
/// all mismatches.
class ShardingTree {
 public:
  /// What a node is.
  enum class Kind : unsigned char {
    unspecified,
    none,
    from_gda,
    automatic,
    sharding,
    spec,
    sequence,
    dictionary
  };

  /// UNSPECIFIED.
  ShardingTree() = default;
  /// A leaf, converted implicitly from its value.
  ShardingTree(Unspecified) {}
  ShardingTree(std::nullptr_t) : kind_(Kind::none) {}
  ShardingTree(FromGda) : kind_(Kind::from_gda) {}
  ShardingTree(const Auto& a) : kind_(Kind::automatic), sharding_(a.on()) {}
  ShardingTree(const Sharding& s) : kind_(Kind::sharding), sharding_(s) {}
  ShardingTree(const PartitionSpec& spec) : kind_(Kind::spec), spec_(spec) {}
  ShardingTree(const Format& format)
      : kind_(format.sharding().valid() ? Kind::sharding : Kind::unspecified),
        sharding_(format.sharding()),
        layout_(format.layout()) {}
  /// The name of an axis isn't a spec: write P("x").
  ShardingTree(const char*) = delete;

  /// Returns a node for a tuple, vector or struct; see `tree`.
  static ShardingTree sequence(std::vector<ShardingTree> children);
  /// Returns a node for a map or struct; see `dict`.
  static ShardingTree dictionary(std::vector<std::pair<std::string, ShardingTree>> children);

  /// What this node is.
  Kind kind() const { return kind_; }
  /// True if the node has no children.
  bool is_leaf() const { return kind_ != Kind::sequence && kind_ != Kind::dictionary; }
  /// True for UNSPECIFIED.
  bool is_unspecified() const { return kind_ == Kind::unspecified && !layout_; }
  /// The layout, if a Format was given.
  const std::optional<Layout>& layout() const { return layout_; }
  /// The sharding of Kind::sharding; of Kind::automatic one on its mesh, or an empty one.
  const Sharding& sharding() const { return sharding_; }
  /// The spec of Kind::spec.
  const PartitionSpec& spec() const { return spec_; }
  /// The children.
  const std::vector<ShardingTree>& children() const { return children_; }
  /// The keys of the children of Kind::dictionary.
  const std::vector<std::string>& keys() const { return keys_; }
  /// Returns a description for messages.
  std::string to_string() const;

 private:
  Kind kind_ = Kind::unspecified;
  Sharding sharding_;
  PartitionSpec spec_;
  std::optional<Layout> layout_;
  std::vector<ShardingTree> children_;
  std::vector<std::string> keys_;
};

/// Returns shardings for the elements of a tuple, vector or struct, in order.
template <class... T>
ShardingTree tree(T&&... children) {
  return ShardingTree::sequence({ShardingTree(std::forward<T>(children))...});
}
/// Returns shardings for the elements of a map or struct, by key or field name.
inline ShardingTree dict(std::vector<std::pair<std::string, ShardingTree>> children) {
  return ShardingTree::dictionary(std::move(children));
}

}  // namespace tessera
