// SPDX-License-Identifier: Apache-2.0
// Prefix matching of trees of shardings with trees of arrays.
#include "src/frontend/run/sharding_prefix.h"

#include <algorithm>
#include <memory>
#include <set>

#include "src/base/arrays/shape.h"
#include "src/base/check.h"

namespace tessera {

ShardingTree ShardingTree::sequence(std::vector<ShardingTree> children) {
  ShardingTree out;
  out.kind_ = Kind::sequence;
  out.children_ = std::move(children);
  return out;
}
ShardingTree ShardingTree::dictionary(std::vector<std::pair<std::string, ShardingTree>> children) {
  ShardingTree out;
  out.kind_ = Kind::dictionary;
  for (auto& [key, child] : children) {
    out.keys_.push_back(key);
    out.children_.push_back(std::move(child));
  }
  return out;
}

Auto Auto::operator()(const Mesh& mesh) const {
  Auto out;
  out.on_ = NamedSharding(mesh, PartitionSpec());
  return out;
}

std::string ShardingTree::to_string() const {
  if (layout_) return Format(*layout_, sharding_, Location{}).to_string();
  switch (kind_) {
    case Kind::unspecified:
      return "UNSPECIFIED";
    case Kind::none:
      return "None";
    case Kind::from_gda:
      return "FROM_GDA";
    case Kind::automatic:
      return sharding_.valid() ? "AUTO(" + NamedSharding(sharding_).mesh().to_string() + ")"
                               : "AUTO";
    case Kind::sharding:
      return sharding_.to_string();
    case Kind::spec:
      return spec_.to_string();
    case Kind::sequence:
    case Kind::dictionary:
      break;
  }
  std::string out = kind_ == Kind::sequence ? "(" : "{";
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (i > 0) out += ", ";
    if (kind_ == Kind::dictionary) out += keys_[i] + ": ";
    out += children_[i].to_string();
  }
  return out + (kind_ == Kind::sequence ? ")" : "}");
}

namespace frontend {

namespace {

/// The structure of a tree of arrays.
struct Node {
  internal::TreeVisitor::Node kind = internal::TreeVisitor::Node::tuple;
  bool leaf = false;
  std::vector<std::string> keys;  ///< "[0]", "['a']", ".w1"
  std::vector<std::unique_ptr<Node>> children;
};

class NodeBuilder : public internal::TreeVisitor {
 public:
  void begin(TreeVisitor::Node kind, std::size_t) override {
    auto node = std::make_unique<frontend::Node>();
    node->kind = kind;
    stack_.push_back(attach(std::move(node)));
  }
  void key(std::size_t i) override { stack_.back()->keys.push_back("[" + std::to_string(i) + "]"); }
  void key(std::string_view k, TreeVisitor::Node kind) override {
    stack_.back()->keys.push_back(kind == TreeVisitor::Node::map ? "[" + std::string(k) + "]"
                                                                 : "." + std::string(k));
  }
  void end() override { stack_.pop_back(); }
  void leaf(Array&) override {
    auto node = std::make_unique<frontend::Node>();
    node->leaf = true;
    attach(std::move(node));
  }
  void none() override { attach(std::make_unique<frontend::Node>()); }
  void static_value(const std::string&) override { attach(std::make_unique<frontend::Node>()); }
  std::unique_ptr<frontend::Node> root;

 private:
  frontend::Node* attach(std::unique_ptr<frontend::Node> node) {
    frontend::Node* raw = node.get();
    if (stack_.empty()) {
      root = std::move(node);
    } else {
      stack_.back()->children.push_back(std::move(node));
    }
    return raw;
  }
  std::vector<frontend::Node*> stack_;
};

class Matcher {
 public:
  using Shown = std::function<std::string(const ShardingTree&)>;
  Matcher(std::string what, Shown shown) : what_(std::move(what)), shown_(std::move(shown)) {}

  void match(const ShardingTree& prefix, const Node& node, const std::string& path) {
    if (prefix.is_leaf()) {
      fill(prefix, node);
      return;
    }
    if (node.leaf) {
      fail(path, "is one array, and " + what_ + " has " + shown_(prefix) + " there");
      return;
    }
    const auto& children = prefix.children();
    if (prefix.kind() == ShardingTree::Kind::sequence) {
      if (children.size() != node.children.size()) {
        std::string hint;
        if (path.empty() && node.children.size() == 1) {
          hint = " (the arguments are a tuple of one: wrap the tree once more, tree(tree(...)))";
        }
        const std::size_t n = node.children.size();
        fail(path, "has " + std::to_string(n) + (n == 1 ? " element, and " : " elements, and ") +
                       what_ + " has " + std::to_string(children.size()) +
                       " there: " + shown_(prefix) + hint);
        return;
      }
      for (std::size_t i = 0; i < children.size(); ++i) {
        match(children[i], *node.children[i], path + node.keys[i]);
      }
      return;
    }
    std::set<std::string> used;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const ShardingTree* found = nullptr;
      for (std::size_t k = 0; k < children.size(); ++k) {
        const std::string& key = prefix.keys()[k];
        if (node.keys[i] == "." + key || node.keys[i] == "['" + key + "']" ||
            node.keys[i] == "[" + key + "]") {
          found = &children[k];
          used.insert(key);
        }
      }
      if (found) {
        match(*found, *node.children[i], path + node.keys[i]);
      } else {
        fail(path + node.keys[i], "has no entry in " + what_ + " " + prefix.to_string());
      }
    }
    for (const std::string& key : prefix.keys()) {
      if (!used.count(key)) fail(path, "has no '" + key + "', which " + what_ + " names");
    }
  }

  void fill(const ShardingTree& leaf, const Node& node) {
    if (node.leaf) out.push_back(leaf);
    for (const auto& child : node.children) fill(leaf, *child);
  }
  void fail(const std::string& path, const std::string& why) {
    errors.push_back("the tree" + (path.empty() ? std::string() : " at " + path) + " " + why);
  }

  std::vector<ShardingTree> out;
  std::vector<std::string> errors;

 private:
  std::string what_;
  Shown shown_;
};

std::vector<ShardingTree> matched(const ShardingTree& prefix,
                                  const std::function<void(internal::TreeVisitor&)>& walk,
                                  const std::string& what, Location location,
                                  const Matcher::Shown& shown) {
  NodeBuilder builder;
  walk(builder);
  TESSERA_CHECK(builder.root != nullptr, "a tree has a root");
  Matcher matcher(what, shown);
  matcher.match(prefix, *builder.root, "");
  if (!matcher.errors.empty()) {
    const std::size_t n = matcher.errors.size();
    std::string text = what + " must be a tree prefix of the " +
                       (what.find("out_") != std::string::npos ? "result" : "positional arguments");
    text += n == 1 ? ": " : "; " + std::to_string(n) + " mismatches: ";
    for (std::size_t i = 0; i < n; ++i) text += (i ? "; " : "") + matcher.errors[i];
    throw ValueError(text, location);
  }
  return std::move(matcher.out);
}

}  // namespace

std::vector<ShardingTree> broadcast_prefix(
    const ShardingTree& prefix, const std::function<void(internal::TreeVisitor&)>& walk,
    const std::string& what, Location location,
    const std::function<std::string(const ShardingTree&)>& shown) {
  std::vector<ShardingTree> out = matched(prefix, walk, what, location, shown);
  for (const ShardingTree& leaf : out) {
    if (!leaf.layout()) continue;
    throw ValueError(what + " has a Format, with " + leaf.layout()->to_string() +
                         "; layouts are stated in in_shardings and out_shardings of jit and in "
                         "device_put; valid here: a sharding",
                     location);
  }
  return out;
}

std::vector<ShardingTree> broadcast_formats(const ShardingTree& prefix,
                                            const std::function<void(internal::TreeVisitor&)>& walk,
                                            const std::string& what, Location location) {
  return matched(prefix, walk, what, location, &ShardingTree::to_string);
}

void check_layout_fits(const ShardingTree& leaf, std::int64_t rank, const std::string& who,
                       Location location) {
  if (!leaf.layout() || leaf.layout()->is_auto()) return;
  const std::size_t dims = leaf.layout()->major_to_minor().size();
  if (std::int64_t(dims) == rank) return;
  throw ValueError(who + ": " + leaf.layout()->to_string() + " is for arrays of rank " +
                       std::to_string(dims) + ", and this one has rank " + std::to_string(rank),
                   location);
}

namespace {
std::string child_path(const ShardingTree& tree, std::size_t i) {
  return tree.keys().empty() ? "[" + std::to_string(i) + "]" : "['" + tree.keys()[i] + "']";
}
}  // namespace

void check_leaves(const ShardingTree& tree, const std::string& what, Location location) {
  if (!tree.is_leaf()) {
    for (std::size_t i = 0; i < tree.children().size(); ++i) {
      check_leaves(tree.children()[i], what + child_path(tree, i), location);
    }
    return;
  }
  const bool is_named = tree.kind() == ShardingTree::Kind::sharding && tree.sharding().valid() &&
                        NamedSharding::is(tree.sharding());
  if (tree.kind() == ShardingTree::Kind::sharding && !tree.sharding().valid()) {
    throw TypeError(what + " holds an empty Sharding", location);
  }
  if (tree.kind() != ShardingTree::Kind::spec && !is_named) return;
  const PartitionSpec& spec = is_named ? NamedSharding(tree.sharding()).spec() : tree.spec();
  std::set<std::string> seen, repeated;
  for (const SpecEntry& entry : spec) {
    if (entry.is_unconstrained()) {
      throw ValueError(what + ": UNCONSTRAINED is only valid in with_sharding_constraint, got " +
                           spec.to_string(),
                       location);
    }
    for (const std::string& axis : entry.axes()) {
      if (!seen.insert(axis).second) repeated.insert(axis);
    }
  }
  if (!repeated.empty()) {
    std::string names;
    for (const std::string& axis : repeated) names += (names.empty() ? "'" : ", '") + axis + "'";
    throw DuplicateSpecError(
        what + ": " + spec.to_string() + " uses an axis more than once: " + names, location);
  }
}

void refuse_from_gda(const ShardingTree& tree, const std::string& what, Location location) {
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    refuse_from_gda(tree.children()[i], what + child_path(tree, i), location);
  }
  if (tree.kind() != ShardingTree::Kind::from_gda) return;
  throw ValueError(what + ": FROM_GDA takes the sharding of an argument; a result has none yet",
                   location);
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

ShardingTree by_position(const ShardingTree& tree, const std::vector<std::string>& names,
                         const std::vector<int>& positions, const std::string& what,
                         Location location) {
  if (tree.kind() != ShardingTree::Kind::dictionary) return tree;
  std::vector<ShardingTree> children(positions.size());
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    const std::string& key = tree.keys()[i];
    const auto name = std::find(names.begin(), names.end(), key);
    if (name == names.end()) {
      throw ValueError(what + " names the argument '" + key + "', and " +
                           (names.empty() ? "arg_names, which must list the names, is empty"
                                          : "arg_names has " + quoted_names(names)),
                       location);
    }
    const int position = int(name - names.begin());
    const auto traced = std::find(positions.begin(), positions.end(), position);
    if (traced == positions.end()) {
      throw ValueError(
          what + " names '" + key + "', which is a static argument: only arrays have shardings",
          location);
    }
    children[std::size_t(traced - positions.begin())] = tree.children()[i];
  }
  return ShardingTree::sequence(std::move(children));
}

Sharding named_sharding(const Mesh& mesh, const PartitionSpec& spec, const std::string& who,
                        Location location) {
  try {
    return NamedSharding(mesh, spec, location);
  } catch (const DuplicateSpecError& e) {
    throw DuplicateSpecError(who + ": " + e.message(), location);
  } catch (const ShardingError& e) {
    throw ShardingError(who + ": " + e.message(), location);
  }
}

void check_resolvable(const ShardingTree& tree, const std::string& what,
                      const std::string& function, bool none_is_replicated, Location location) {
  if (tree.is_leaf()) {
    const std::string who = what + " of '" + function + "'";
    if (mesh_of_auto(tree, who, location)) return;
    (void)resolve_leaf(tree, who, none_is_replicated, false, location);
    return;
  }
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    check_resolvable(tree.children()[i], what + child_path(tree, i), function, none_is_replicated,
                     location);
  }
}

std::optional<Sharding> mesh_of_auto(const ShardingTree& leaf, const std::string& what,
                                     Location location) {
  if (leaf.kind() != ShardingTree::Kind::automatic) return std::nullopt;
  if (leaf.sharding().valid()) {
    if (leaf.sharding().num_devices() > 0) return leaf.sharding();
    throw ValueError(what + ": AUTO on an empty mesh", location);
  }
  const Mesh mesh = current_mesh();
  if (!mesh.empty()) return NamedSharding(mesh, PartitionSpec(), location);
  throw RuntimeError(what +
                         " is AUTO, and no mesh is in scope: write AUTO(mesh), or put "
                         "`MeshScope scope(mesh);` before",
                     location);
}

std::optional<Sharding> resolve_leaf(const ShardingTree& leaf, const std::string& what,
                                     bool none_is_replicated, bool allow_unconstrained,
                                     Location location) {
  switch (leaf.kind()) {
    case ShardingTree::Kind::unspecified:
      return std::nullopt;
    case ShardingTree::Kind::from_gda:
      throw ValueError(what + ": FROM_GDA is valid for the arguments of jit and pjit only",
                       location);
    case ShardingTree::Kind::automatic:
      throw ValueError(
          what + ": AUTO is valid in in_shardings and out_shardings of jit and pjit only",
          location);
    case ShardingTree::Kind::none: {
      const Mesh mesh = current_mesh();
      if (!none_is_replicated || mesh.empty()) return std::nullopt;
      return NamedSharding(mesh, PartitionSpec(), location);
    }
    case ShardingTree::Kind::sharding:
      if (!allow_unconstrained) check_leaves(leaf, what, location);
      if (leaf.sharding().num_devices() == 0) {
        throw ValueError(
            what + ": the sharding " + leaf.sharding().to_string() + " has an empty mesh",
            location);
      }
      return leaf.sharding();
    case ShardingTree::Kind::spec: {
      if (!allow_unconstrained) check_leaves(leaf, what, location);
      const Mesh mesh = current_mesh();
      if (mesh.empty()) {
        throw RuntimeError(what + " got " + leaf.spec().to_string() +
                               ", and no mesh is in scope: put `MeshScope scope(mesh);` before, or "
                               "give NamedSharding(mesh, spec)",
                           location);
      }
      return named_sharding(mesh, leaf.spec(), what, location);
    }
    default:
      throw InternalError("resolve_leaf of a tree");
  }
}

void check_fits(const Sharding& sharding, const std::vector<std::int64_t>& shape,
                const std::string& who, bool allow_uneven, Location location) {
  if (NamedSharding::is(sharding)) {
    const PartitionSpec& spec = NamedSharding(sharding).spec();
    if (spec.size() > shape.size()) {
      throw ShardingError(who + " has shape " + to_string(shape) + " of rank " +
                              std::to_string(shape.size()) + ", and " + spec.to_string() +
                              " needs rank " + std::to_string(spec.size()) + " or more" +
                              (shape.empty() ? " (a scalar wants the empty spec, P())" : ""),
                          location);
    }
  }
  if (allow_uneven) return;
  try {
    (void)sharding.shard_shape(shape, location);
  } catch (const IndivisibleError& e) {
    throw IndivisibleError(who + ": " + e.message(), location);
  } catch (const ShardingError& e) {
    throw ShardingError(who + ": " + e.message(), location);
  }
}

void check_fits(const Sharding& sharding, const Shape& shape, const std::string& who,
                bool allow_uneven, Location location) {
  check_fits(sharding, shape.dims, who, allow_uneven, location);
  if (!is_complex(shape.dtype) || !NamedSharding::is(sharding)) return;
  const PartitionSpec& spec = NamedSharding(sharding).spec();
  const UnreducedKind kind = spec.unreduced_kind().value_or(UnreducedKind::sum);
  if (kind == UnreducedKind::sum) return;
  throw DTypeError(who + " is " + shape.to_string() + ", and " + spec.to_string() + " is of a " +
                       to_string(kind) +
                       " of its parts: complex numbers have no order; valid: "
                       "UnreducedKind::sum, or a spec without unreduced axes",
                   location);
}

}  // namespace frontend
}  // namespace tessera
