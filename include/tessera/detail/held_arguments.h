// SPDX-License-Identifier: Apache-2.0
// Arguments of a transformed function as trees of Array.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/tree.h>

namespace tessera::internal {

/// A tree as it is, an operand or a plain number as an array.
template <class T>
decltype(auto) as_tree(const T& value) {
  if constexpr (std::is_same_v<T, Operand>) {
    return (value.array);
  } else if constexpr (TreeLike<T>) {
    return (value);
  } else {
    return Array(value);
  }
}

template <class Args>
struct held_args_of;
template <class... A>
struct held_args_of<std::tuple<A...>> {
  using type = std::tuple<traced_type<A>...>;
};
/// A tuple of parameter types, Operand as Array.
template <class Args>
using held_args = typename held_args_of<Args>::type;

template <class T>
constexpr bool is_pair_like() {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::tuple_size<T>::value == 2;
  } else {
    return false;
  }
}

/// The arrays of trees, one tree after the other.
template <class... T>
std::vector<Array> leaves_in_order(const T&... trees) {
  std::vector<Array> out;
  const auto add = [&](const auto& tree) {
    const std::vector<Array> leaves = tree_leaves(as_tree(tree));
    out.insert(out.end(), leaves.begin(), leaves.end());
  };
  (add(trees), ...);
  return out;
}

/// A tuple of trees like those, of leaves in order.
template <class... T>
std::tuple<T...> trees_in_order(const std::tuple<T...>& like, const std::vector<Array>& leaves) {
  std::size_t next = 0;
  const auto one = [&](const auto& tree) {
    const std::size_t count = tree_leaves(tree).size();
    const auto first = leaves.begin() + std::ptrdiff_t(next);
    next += count;
    return tree_unflatten(tree, std::vector<Array>(first, first + std::ptrdiff_t(count)));
  };
  // In braces, so that they are made in order.
  return std::apply([&](const auto&... trees) { return std::tuple<T...>{one(trees)...}; }, like);
}

}  // namespace tessera::internal
