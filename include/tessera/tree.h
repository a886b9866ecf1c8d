// SPDX-License-Identifier: Apache-2.0
// Trees of arrays.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/static_key.h>
#include <tessera/detail/tree_reflection.h>

/// @file
/// Trees of arrays (JAX's pytrees): vectors, arrays, maps (unordered ones in the order of their
/// keys), tuples, pairs, optionals, variants and plain structs of Array, nested to any depth.
/// Structs with a base class or more than 24 fields need TESSERA_TREE; a struct may hold containers
/// of itself. Traced functions take and return trees; their arrays are called leaves. Numbers,
/// enums and strings within a tree are part of its type.
/// @code
/// struct Params {
///   Array w, b;
/// };
/// auto step = jit([](Params p, Array x) { return Params{p.w - x, p.b}; });
/// @endcode

namespace tessera {

namespace internal {

/// Walks a tree in a fixed order: begin, (key, child)*, end; leaves and static values between.
class TreeVisitor {
 public:
  enum class Node : char { sequence = '[', tuple = '(', map = '{', structure = '<' };
  virtual ~TreeVisitor() = default;
  virtual void begin(Node, std::size_t) {}
  virtual void key(std::size_t) {}
  virtual void key(std::string_view, Node) {}
  virtual void end() {}
  virtual void leaf(Array&) = 0;
  virtual void none() {}
  /// The following tree is this alternative of a variant: part of the tree's type.
  virtual void alternative(std::size_t) {}
  /// A value that isn't an array: part of the tree's type.
  virtual void static_value(const std::string&) {}
  /// A static value that is a view of text owned elsewhere.
  virtual void static_view(std::string_view& text) { static_value(quoted(text)); }
  virtual void static_view(const char*& text) { static_value(quoted(text)); }
  /// Asked after each static value: the text of the value to assign in its place, or null.
  virtual const std::string* replacement() { return nullptr; }

 protected:
  static std::string quoted(const char* text);
  static std::string quoted(std::string_view text);
};

template <class T>
struct container_of {
  static constexpr int kind = 0;
};
template <class T, class A>
struct container_of<std::vector<T, A>> {
  static constexpr int kind = 1;
  using item = T;
};
template <class T, std::size_t N>
struct container_of<std::array<T, N>> {
  static constexpr int kind = 1;
  using item = T;
};
template <class T, std::size_t N>
struct container_of<T[N]> {
  static constexpr int kind = 1;
  using item = T;
};
template <class K, class T, class C, class A>
requires is_static_like<K>
struct container_of<std::map<K, T, C, A>> {
  static constexpr int kind = 2;
  using item = T;
};
template <class K, class T, class H, class E, class A>
requires is_static_like<K>
struct container_of<std::unordered_map<K, T, H, E, A>> {
  static constexpr int kind = 5;
  using item = T;
};
template <class... T>
struct container_of<std::variant<T...>> {
  static constexpr int kind = 6;
};
template <class... T>
struct container_of<std::tuple<T...>> {
  static constexpr int kind = 3;
};
template <class A, class B>
struct container_of<std::pair<A, B>> {
  static constexpr int kind = 3;
};
template <class T>
struct container_of<std::optional<T>> {
  static constexpr int kind = 4;
  using item = T;
};

template <class T>
concept HasTreeTie = requires(T& v) {
  tessera_tree_tie(v);
};
template <class T>
concept HasTreeNames = requires(const T* v) {
  tessera_tree_names(v);
};

template <class T>
constexpr bool is_struct_tree() {
  if constexpr (container_of<T>::kind != 0 || is_array_like<T> || is_static_like<T>) {
    return false;
  } else if constexpr (HasTreeTie<T>) {
    return true;
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) {
    return std::is_empty_v<T> || is_plain_struct<T>();
  } else {
    return false;
  }
}

template <class T>
auto fields_of(T& value) {
  if constexpr (HasTreeTie<T>) {
    return tessera_tree_tie(value);
  } else {
    return tie_fields(value);
  }
}

/// Why a type isn't a tree.
enum class TreeProblem { none, base_class, many_fields, other };

template <class T, class... Around>
constexpr TreeProblem tree_problem();

template <class... Around, class... T>
constexpr TreeProblem first_problem(const std::tuple<T...>*) {
  TreeProblem out = TreeProblem::none;
  ((out = out != TreeProblem::none || is_static_like<std::remove_cvref_t<T>>
              ? out
              : tree_problem<std::remove_cvref_t<T>, Around...>()),
   ...);
  return out;
}

/// `Around`: the types that T is a part of. A struct may hold containers of itself.
template <class T, class... Around>
constexpr TreeProblem tree_problem() {
  constexpr int kind = container_of<T>::kind;
  if constexpr (is_array_like<T> || (std::is_same_v<T, Around> || ...)) {
    return TreeProblem::none;
  } else if constexpr (kind == 3) {
    using Items =
        decltype(std::apply([](auto&... x) { return std::tie(x...); }, std::declval<T&>()));
    return first_problem<T, Around...>(static_cast<const Items*>(nullptr));
  } else if constexpr (kind == 6) {
    using Items = typename value_variant<T>::items;
    return first_problem<T, Around...>(static_cast<const Items*>(nullptr));
  } else if constexpr (kind != 0) {
    using Item = typename container_of<T>::item;
    return first_problem<T, Around...>(static_cast<const std::tuple<Item>*>(nullptr));
  } else if constexpr (is_struct_tree<T>()) {
    return first_problem<T, Around...>(
        static_cast<const decltype(fields_of(std::declval<T&>()))*>(nullptr));
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) {
    return has_base_class<T>() ? TreeProblem::base_class : TreeProblem::many_fields;
  } else {
    return TreeProblem::other;
  }
}

template <class T>
constexpr bool is_tree() {
  return tree_problem<T>() == TreeProblem::none;
}

/// Fails with a readable message for structs whose fields can't be found. Returns whether T may be
/// a tree otherwise.
template <class T>
constexpr bool fields_found() {
  constexpr TreeProblem problem = tree_problem<T>();
  static_assert(problem != TreeProblem::base_class,
                "tessera: the fields of a struct with a base class can't be found: name them, "
                "those of the base class too, with TESSERA_TREE(Type, field, ...)");
  static_assert(problem != TreeProblem::many_fields,
                "tessera: the fields of a struct with more than 24 of them can't be found: name "
                "them with TESSERA_TREE(Type, field, ...)");
  return problem == TreeProblem::none || problem == TreeProblem::other;
}

/// The entries of an unordered map in the order of their keys.
template <class Map>
auto sorted_entries(Map& map) {
  using Entry = decltype(&*map.begin());
  const auto before = [](Entry a, Entry b) {
    if constexpr (std::is_same_v<typename Map::key_type, const char*>) {
      return std::string_view(a->first) < std::string_view(b->first);
    } else {
      return a->first < b->first;
    }
  };
  std::multiset<Entry, decltype(before)> ordered(before);
  for (auto& entry : map) ordered.insert(&entry);
  return std::vector<Entry>(ordered.begin(), ordered.end());
}

/// A copy of the text that lives until the process ends, for trees that hold views of text.
std::string_view kept_text(std::string_view text);
const char* kept_text(const char* text);

/// The inverse of static_text; a text that is none, or a value that T hasn't, is a ValueError.
long long integer_of_static(std::string_view text, long long least, long long most);
unsigned long long natural_of_static(std::string_view text, unsigned long long most);
void float_of_static(std::string_view text, float& value);
void float_of_static(std::string_view text, double& value);
void float_of_static(std::string_view text, long double& value);
std::string string_of_static(std::string_view text);
const char* pointer_of_static(std::string_view text);
/// Assigns a static value of which `text` is the static_text.
template <class T>
void assign_static(T& value, std::string_view text) {
  if constexpr (std::is_enum_v<T>) {
    using Number = std::underlying_type_t<T>;
    Number number{};
    assign_static(number, text);
    value = static_cast<T>(number);
  } else if constexpr (std::is_floating_point_v<T>) {
    float_of_static(text, value);
  } else if constexpr (std::is_unsigned_v<T>) {
    value = static_cast<T>(natural_of_static(text, std::numeric_limits<T>::max()));
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(
        integer_of_static(text, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    value = kept_text(string_of_static(text));
  } else if constexpr (std::is_same_v<T, const char*>) {
    value = pointer_of_static(text);
  } else {
    value = string_of_static(text);
  }
}

template <class T>
void visit_tree(T& value, TreeVisitor& visitor) {
  using Node = TreeVisitor::Node;
  if constexpr (std::is_same_v<T, Array>) {
    visitor.leaf(value);
  } else if constexpr (std::is_same_v<T, Operand>) {
    visitor.leaf(value.array);
  } else if constexpr (std::is_same_v<T, std::string_view> || std::is_same_v<T, const char*>) {
    visitor.static_view(value);
    if (const std::string* text = visitor.replacement()) assign_static(value, *text);
  } else if constexpr (is_static_like<T>) {
    visitor.static_value(static_text(value));
    if constexpr (!std::is_const_v<T>) {
      if (const std::string* text = visitor.replacement()) assign_static(value, *text);
    }
  } else if constexpr (container_of<T>::kind == 1) {
    visitor.begin(Node::sequence, std::size(value));
    std::size_t i = 0;
    for (auto& item : value) {
      visitor.key(i++);
      visit_tree(item, visitor);
    }
    visitor.end();
  } else if constexpr (container_of<T>::kind == 2) {
    visitor.begin(Node::map, value.size());
    for (auto& [key, item] : value) {
      visitor.key(static_text(key), Node::map);
      visit_tree(item, visitor);
    }
    visitor.end();
  } else if constexpr (container_of<T>::kind == 5) {
    visitor.begin(Node::map, value.size());
    for (auto* entry : sorted_entries(value)) {
      visitor.key(static_text(entry->first), Node::map);
      visit_tree(entry->second, visitor);
    }
    visitor.end();
  } else if constexpr (container_of<T>::kind == 6) {
    visitor.alternative(value.index());
    std::visit([&](auto& item) { visit_tree(item, visitor); }, value);
  } else if constexpr (container_of<T>::kind == 3) {
    visitor.begin(Node::tuple, std::tuple_size_v<T>);
    std::size_t i = 0;
    std::apply([&](auto&... items) { ((visitor.key(i++), visit_tree(items, visitor)), ...); },
               value);
    visitor.end();
  } else if constexpr (container_of<T>::kind == 4) {
    if (value) {
      visit_tree(*value, visitor);
    } else {
      visitor.none();
    }
  } else {
    static_assert(!fields_found<T>() || is_struct_tree<T>(),
                  "tessera: not a tree: use Array, vector, array, map, pair, tuple, optional, "
                  "variant, or a plain struct of these (or name its fields with TESSERA_TREE)");
    auto fields = fields_of(value);
    visitor.begin(Node::structure, std::tuple_size_v<decltype(fields)>);
    std::size_t i = 0;
    std::apply(
        [&](auto&... items) {
          [[maybe_unused]] auto one = [&](auto& item) {
            if constexpr (HasTreeNames<T>) {
              visitor.key(tessera_tree_names(static_cast<const T*>(nullptr))[i++], Node::structure);
            } else {
              visitor.key(i++);
            }
            visit_tree(item, visitor);
          };
          (one(items), ...);
        },
        fields);
    visitor.end();
  }
}

/// The leaves in order, without the structure.
std::vector<Array> collect_leaves(const std::function<void(TreeVisitor&)>& walk);
/// Assigns leaves in order.
void assign_leaves(const std::function<void(TreeVisitor&)>& walk, const std::vector<Array>& leaves);
/// Structure, keys and static values as text: trees of one C++ type that have equal text differ in
/// their arrays alone.
std::string tree_signature(const std::function<void(TreeVisitor&)>& walk);
/// One path per leaf: "", "[1]", "['a'].w1".
std::vector<std::string> leaf_paths(const std::function<void(TreeVisitor&)>& walk);

void keep_viewed_texts(const std::function<void(TreeVisitor&)>& walk);
/// Replaces views of text in a tree, or in a static value, by views of copies that live until the
/// process ends: for values that are used after the call that they were passed to.
template <class T>
void keep_texts(T& value) {
  if constexpr (std::is_same_v<T, std::string_view> || std::is_same_v<T, const char*>) {
    value = kept_text(value);
  } else if constexpr (!is_static_like<T> && is_tree<T>()) {
    keep_viewed_texts([&](TreeVisitor& v) { visit_tree(value, v); });
  }
}

}  // namespace internal

/// Types that traced functions may take and return: Array and trees of it.
template <class T>
concept TreeLike = internal::is_tree<std::remove_cvref_t<T>>();

/// Returns the arrays of a tree in order: elements by position, maps by key, structs by field
/// (jax.tree.leaves).
template <TreeLike T>
std::vector<Array> tree_leaves(const T& tree) {
  return internal::collect_leaves(
      [&](internal::TreeVisitor& v) { internal::visit_tree(const_cast<T&>(tree), v); });
}
/// Returns a copy of the tree with other arrays (jax.tree.unflatten).
/// @throws ValueError if their number differs.
template <TreeLike T>
T tree_unflatten(const T& like, const std::vector<Array>& leaves) {
  T copy = like;
  internal::assign_leaves([&](internal::TreeVisitor& v) { internal::visit_tree(copy, v); }, leaves);
  return copy;
}
namespace internal {
/// The arrays of another tree of `tree_map`; ValueError if their number isn't that of the first.
std::vector<Array> leaves_beside(std::size_t first, std::vector<Array> leaves, std::size_t place);
}  // namespace internal

/// Returns the tree with `f` applied to each array (jax.tree.map), or to the arrays at one place of
/// several trees. The result has the first tree's type.
/// @code
/// Params next = tree_map([](Array p, Array g) { return p - 0.1f * g; }, params, gradients);
/// @endcode
/// @param f  Takes one array of each tree and returns one.
/// @param tree  The tree that the result is like.
/// @param rest  Trees with as many arrays, in the same order; their types may differ.
/// @throws ValueError if the numbers of arrays differ.
template <TreeLike T, class F, TreeLike... Rest>
T tree_map(F&& f, const T& tree, const Rest&... rest) {
  std::vector<Array> leaves = tree_leaves(tree);
  [[maybe_unused]] std::size_t place = 1;
  // In braces, so that the trees are counted in order.
  const std::array<std::vector<Array>, sizeof...(Rest)> others{
      internal::leaves_beside(leaves.size(), tree_leaves(rest), ++place)...};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] =
        std::apply([&](const auto&... other) { return Array(f(leaves[i], other[i]...)); }, others);
  }
  return tree_unflatten(tree, leaves);
}
/// Returns the place of each array of a tree, in the order of `tree_leaves`: positions in brackets,
/// keys in quotes, fields of structs with names (TESSERA_TREE) after a dot; "" for a tree that is
/// one array.
/// @code
/// tree_paths(params);   // {".layers[0].w", ".layers[0].b", ...}
/// @endcode
template <TreeLike T>
std::vector<std::string> tree_paths(const T& tree) {
  return internal::leaf_paths(
      [&](internal::TreeVisitor& v) { internal::visit_tree(const_cast<T&>(tree), v); });
}

}  // namespace tessera
