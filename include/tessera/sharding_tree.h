// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/partition_spec.h>
#include <tessera/sharding.h>

namespace tessera {

/// "Not specified": an argument's own sharding is taken, a result's is chosen by propagation.
struct Unspecified {};
inline constexpr Unspecified UNSPECIFIED{};

/// Shardings for a tree of arrays, as a prefix of that tree: a leaf (a Sharding, a PartitionSpec
/// that needs a mesh in scope, nullptr, or UNSPECIFIED) stands for all arrays below it; `tree(...)`
/// lists what stands for the elements of a tuple, vector or struct in order; `dict(...)` for those
/// of a map or of a struct with named fields.
/// @code
/// jit(f, {.in_shardings = tree(P("x"), nullptr), .out_shardings = P("x")});
/// @endcode
class ShardingTree {
 public:
  enum class Kind : unsigned char { unspecified, none, sharding, spec, sequence, dictionary };

  ShardingTree() = default;
  ShardingTree(Unspecified) {}
  ShardingTree(std::nullptr_t) : kind_(Kind::none) {}
  ShardingTree(const Sharding& s) : kind_(Kind::sharding), sharding_(s) {}
  ShardingTree(const PartitionSpec& spec) : kind_(Kind::spec), spec_(spec) {}
  /// The name of an axis alone is no spec: say P("x").
  ShardingTree(const char*) = delete;

  static ShardingTree sequence(std::vector<ShardingTree> children);
  static ShardingTree dictionary(std::vector<std::pair<std::string, ShardingTree>> children);

  Kind kind() const { return kind_; }
  bool is_leaf() const { return kind_ != Kind::sequence && kind_ != Kind::dictionary; }
  bool is_unspecified() const { return kind_ == Kind::unspecified; }
  const Sharding& sharding() const { return sharding_; }
  const PartitionSpec& spec() const { return spec_; }
  const std::vector<ShardingTree>& children() const { return children_; }
  const std::vector<std::string>& keys() const { return keys_; }
  std::string to_string() const;

 private:
  Kind kind_ = Kind::unspecified;
  Sharding sharding_;
  PartitionSpec spec_;
  std::vector<ShardingTree> children_;
  std::vector<std::string> keys_;
};

/// Shardings of the elements of a tuple, vector or struct, in order.
template <class... T>
ShardingTree tree(T&&... children) {
  return ShardingTree::sequence({ShardingTree(std::forward<T>(children))...});
}
/// Shardings of the elements of a map or struct, by key or field name.
inline ShardingTree dict(std::vector<std::pair<std::string, ShardingTree>> children) {
  return ShardingTree::dictionary(std::move(children));
}

}  // namespace tessera
