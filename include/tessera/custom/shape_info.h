// SPDX-License-Identifier: Apache-2.0
// Arguments and results as the callbacks of custom_partitioning see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/error.h>
#include <tessera/sharding.h>
#include <tessera/tree.h>

namespace tessera {

/// An argument or result as the callbacks of `custom_partitioning` see it.
struct ShapeInfo {
  std::vector<std::int64_t> shape;  ///< global shape
  DType dtype = DType::f32;         ///< dtype
  /// The suggested sharding; not `valid()` if there is none, as for results in
  /// infer_sharding_from_operands.
  Sharding sharding;
};
/// All arguments or results: the leaves of their trees, in order.
using ShapeInfos = std::vector<ShapeInfo>;

namespace internal {

/// Whether `To` is the tree `From` with a ShapeInfo in place of each Array. `Around`: the types
/// that From is a part of; a struct may hold containers of itself.
template <class From, class To, class... Around>
constexpr bool infos_fit();

template <class... Around, class... From, class... To>
constexpr bool all_infos_fit(const std::tuple<From...>*, const std::tuple<To...>*) {
  if constexpr (sizeof...(From) != sizeof...(To)) {
    return false;
  } else {
    return (infos_fit<std::remove_cvref_t<From>, std::remove_cvref_t<To>, Around...>() && ...);
  }
}

template <class Tuple>
using items_of =
    decltype(std::apply([](auto&... x) { return std::tie(x...); }, std::declval<Tuple&>()));
template <class Struct>
using field_types = decltype(fields_of(std::declval<Struct&>()));

template <class T>
constexpr std::size_t fixed_size() {
  if constexpr (container_of<T>::kind == 1 && !requires(T & v) { v.resize(1); }) {
    return sizeof(T) / sizeof(typename container_of<T>::item);
  } else {
    return 0;
  }
}

template <class From, class To, class... Around>
constexpr bool infos_fit() {
  constexpr int from = container_of<From>::kind, to = container_of<To>::kind;
  if constexpr ((std::is_same_v<From, Around> || ...)) {
    return true;
  } else if constexpr (is_array_like<From> || std::is_same_v<To, ShapeInfo>) {
    return is_array_like<From> && std::is_same_v<To, ShapeInfo>;
  } else if constexpr (is_static_like<From> || is_static_like<To>) {
    return std::is_same_v<From, To>;
  } else if constexpr ((from == 2 || from == 5) && (to == 2 || to == 5)) {
    return std::is_same_v<typename From::key_type, typename To::key_type> &&
           infos_fit<typename From::mapped_type, typename To::mapped_type, From, Around...>();
  } else if constexpr (from != to) {
    return false;
  } else if constexpr (from == 1 || from == 4) {
    return fixed_size<From>() == fixed_size<To>() &&
           infos_fit<typename container_of<From>::item, typename container_of<To>::item, From,
                     Around...>();
  } else if constexpr (from == 3) {
    return all_infos_fit<From, Around...>(static_cast<const items_of<From>*>(nullptr),
                                          static_cast<const items_of<To>*>(nullptr));
  } else if constexpr (from == 6) {
    return []<class... F, class... T>(const std::variant<F...>*, const std::variant<T...>*) {
      return all_infos_fit<From, Around...>(static_cast<const std::tuple<F...>*>(nullptr),
                                            static_cast<const std::tuple<T...>*>(nullptr));
    }(static_cast<const From*>(nullptr), static_cast<const To*>(nullptr));
  } else if constexpr (is_struct_tree<From>() && is_struct_tree<To>()) {
    return all_infos_fit<From, Around...>(static_cast<const field_types<From>*>(nullptr),
                                          static_cast<const field_types<To>*>(nullptr));
  } else {
    return false;
  }
}

/// Fills a tree of ShapeInfo in the structure of a tree of arrays from its leaves on, and moves
/// `next` behind them.
template <class From, class To>
void fill_infos(From& like, To& out, ShapeInfos::const_iterator& next) {
  if constexpr (std::is_same_v<To, ShapeInfo>) {
    out = *next++;
  } else if constexpr (is_static_like<To>) {
    out = like;
  } else if constexpr (container_of<To>::kind == 1) {
    if constexpr (requires { out.resize(1u); }) out.resize(like.size());
    for (std::size_t i = 0; i < std::size(like); ++i) fill_infos(like[i], out[i], next);
  } else if constexpr (container_of<From>::kind == 2) {
    for (auto& [key, item] : like) fill_infos(item, out[key], next);
  } else if constexpr (container_of<From>::kind == 5) {
    for (auto* entry : sorted_entries(like)) fill_infos(entry->second, out[entry->first], next);
  } else if constexpr (container_of<To>::kind == 4) {
    if (like) fill_infos(*like, out.emplace(), next);
  } else if constexpr (container_of<To>::kind == 6) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)((like.index() == I &&
              (fill_infos(std::get<I>(like), out.template emplace<I>(), next), true)) ||
             ...);
    }
    (std::make_index_sequence<std::variant_size_v<To>>{});
  } else {
    auto each = [&]<class F, class T, std::size_t... I>(F from, T to, std::index_sequence<I...>) {
      (fill_infos(std::get<I>(from), std::get<I>(to), next), ...);
    };
    if constexpr (container_of<To>::kind == 3) {
      const auto tied = [](auto& tuple) {
        return std::apply([](auto&... x) { return std::tie(x...); }, tuple);
      };
      each(tied(like), tied(out), std::make_index_sequence<std::tuple_size_v<To>>{});
    } else {
      each(fields_of(like), fields_of(out),
           std::make_index_sequence<std::tuple_size_v<field_types<To>>>{});
    }
  }
}

/// Whether T is a tree of shardings: containers, tuples and structs of Sharding and its classes.
template <class T, class... Around>
constexpr bool is_tree_of_shardings();

template <class... Around, class... T>
constexpr bool all_trees_of_shardings(const std::tuple<T...>*) {
  return (is_tree_of_shardings<std::remove_cvref_t<T>, Around...>() && ...);
}

template <class T, class... Around>
constexpr bool is_tree_of_shardings() {
  constexpr int kind = container_of<T>::kind;
  if constexpr (std::is_convertible_v<const T&, Sharding> || (std::is_same_v<T, Around> || ...)) {
    return true;
  } else if constexpr (is_static_like<T>) {
    return false;
  } else if constexpr (kind == 1 || kind == 4) {
    return is_tree_of_shardings<typename container_of<T>::item, T, Around...>();
  } else if constexpr (kind == 2 || kind == 5) {
    return is_tree_of_shardings<typename T::mapped_type, T, Around...>();
  } else if constexpr (kind == 3) {
    return all_trees_of_shardings<T, Around...>(static_cast<const items_of<T>*>(nullptr));
  } else if constexpr (kind == 6) {
    return []<class... A>(const std::variant<A...>*) {
      return (is_tree_of_shardings<A, T, Around...>() && ...);
    }(static_cast<const T*>(nullptr));
  } else if constexpr (is_struct_tree<T>() && !std::is_empty_v<T>) {
    return all_trees_of_shardings<T, Around...>(static_cast<const field_types<T>*>(nullptr));
  } else {
    return false;
  }
}

/// Calls `f` with each leaf of a tree, values that convert to Leaf, in order.
template <class Leaf, class T, class F>
void for_each_leaf(T& tree, const F& f) {
  using Value = std::remove_const_t<T>;
  constexpr int kind = container_of<Value>::kind;
  if constexpr (std::is_convertible_v<const Value&, Leaf>) {
    f(tree);
  } else if constexpr (is_static_like<Value>) {
    // No leaf.
  } else if constexpr (kind == 1) {
    for (auto& item : tree) for_each_leaf<Leaf>(item, f);
  } else if constexpr (kind == 2) {
    for (auto& entry : tree) for_each_leaf<Leaf>(entry.second, f);
  } else if constexpr (kind == 5) {
    for (auto* entry : sorted_entries(tree)) for_each_leaf<Leaf>(entry->second, f);
  } else if constexpr (kind == 3) {
    std::apply([&](auto&... items) { (for_each_leaf<Leaf>(items, f), ...); }, tree);
  } else if constexpr (kind == 4) {
    if (tree) for_each_leaf<Leaf>(*tree, f);
  } else if constexpr (kind == 6) {
    std::visit([&](auto& item) { for_each_leaf<Leaf>(item, f); }, tree);
  } else {
    std::apply([&](auto&... items) { (for_each_leaf<Leaf>(items, f), ...); }, fields_of(tree));
  }
}

}  // namespace internal

/// Shardings of all arguments, or of all results, as the callbacks of `custom_partitioning` return
/// them: a list with one for each leaf, in order; a tree of shardings, whose leaves are that list;
/// or one sharding for all.
class ShardingList {
 public:
  /// None.
  ShardingList() = default;
  /// One sharding: that of the only argument or result, or of all of them.
  ShardingList(const Sharding& sharding) : list_{sharding} {}  // NOLINT: implicit by design
  /// One for each leaf.
  ShardingList(std::vector<Sharding> list) : list_(std::move(list)) {}  // NOLINT
  /// One for each leaf.
  ShardingList(std::initializer_list<Sharding> list) : list_(list) {}
  /// The leaves of a tuple, container or struct of shardings.
  template <class T>
  requires(!std::is_convertible_v<const T&, Sharding> && !std::is_same_v<T, ShardingList> &&
           internal::is_tree_of_shardings<T>()) ShardingList(const T& tree) {  // NOLINT
    internal::for_each_leaf<Sharding>(const_cast<T&>(tree),
                                      [&](const Sharding& s) { list_.push_back(s); });
  }

  /// The shardings in order.
  const std::vector<Sharding>& list() const { return list_; }
  /// Their number.
  std::size_t size() const { return list_.size(); }
  /// The sharding at a position.
  const Sharding& operator[](std::size_t i) const { return list_[i]; }

 private:
  std::vector<Sharding> list_;
};

/// Returns the shardings of a ShapeInfo, of a list or of a tree of them, in order: what JAX's
/// callbacks write as `jax.tree.map(lambda x: x.sharding, arg_shapes)`.
template <class Infos>
ShardingList shardings_of(const Infos& infos) {
  std::vector<Sharding> out;
  internal::for_each_leaf<ShapeInfo>(const_cast<Infos&>(infos),
                                     [&](const ShapeInfo& info) { out.push_back(info.sharding); });
  return out;
}

}  // namespace tessera
