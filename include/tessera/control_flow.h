// SPDX-License-Identifier: Apache-2.0
// Loops and branches that stay loops and branches in the compiled program.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {

using FlatFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

std::vector<Array> while_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                              const FlatFunction& condition, const FlatFunction& body,
                              const std::string& name, Location location);
std::vector<Array> fori_core(const Array& lower, const Array& upper, const std::vector<Array>& init,
                             const std::vector<std::string>& paths, const FlatFunction& body,
                             Location location);
std::vector<Array> cond_core(const Array& index, bool is_predicate,
                             const std::vector<FlatFunction>& branches,
                             const std::vector<Array>& operands, const std::string& name,
                             Location location);
struct ScanCore {
  std::int64_t length = -1;  ///< -1: from xs
  bool reverse = false;
};
/// Returns the carry's leaves, then the stacked outputs'. `carry_count` leaves of f's result are
/// the carry.
std::vector<Array> scan_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                             const std::vector<Array>& xs, const FlatFunction& f,
                             const ScanCore& options, Location location);

template <class T>
constexpr bool is_pair_like() {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::tuple_size<T>::value == 2;
  } else {
    return false;
  }
}
template <class T>
std::vector<std::string> paths_of(const T& value) {
  return leaf_paths([&](TreeVisitor& v) { visit_tree(const_cast<T&>(value), v); });
}
/// A plain number stands for an array.
template <class T>
using carried_t = std::conditional_t<ScalarLike<T>, Array, T>;
template <class T>
std::string tree_of(const T& value) {
  return tree_signature([&](TreeVisitor& v) { visit_tree(const_cast<T&>(value), v); });
}
template <class T, class F>
FlatFunction flat(const T& prototype, F f) {
  return [&prototype, f](const std::vector<Array>& leaves) {
    return tree_leaves(f(tree_unflatten(prototype, leaves)));
  };
}
/// The leaves of what a loop's function returns. TypeError for another tree of as many arrays than
/// what is carried: other keys, other static values.
template <class T>
std::vector<Array> next_leaves(const T& carried, const T& next, const char* loop,
                               Location location) {
  std::vector<Array> leaves = tree_leaves(next);
  if (leaves.size() == tree_leaves(carried).size()) {
    const std::string before = tree_of(carried), after = tree_of(next);
    if (before != after) {
      throw TypeError(std::string(loop) +
                          ": the tree of the carried value must stay the same; it is " + before +
                          ", and the function returns " + after + " (* is an array)",
                      location);
    }
  }
  return leaves;
}
/// Branches of one C++ type that return the same tree.
template <class R>
class BranchResults {
 public:
  BranchResults(const char* api, Location location) : api_(api), location_(location) {}
  std::vector<Array> add(R result) {
    const std::string tree = tree_of(result);
    if (!first_) {
      tree_ = tree;
      first_ = std::make_shared<R>(std::move(result));
      return tree_leaves(*first_);
    }
    if (tree != tree_) {
      throw TypeError(
          std::string(api_) + ": the branches return different trees: " + tree_ + " and " + tree,
          location_);
    }
    return tree_leaves(result);
  }
  const R& first() const { return *first_; }

 private:
  const char* api_;
  Location location_;
  std::shared_ptr<R> first_;
  std::string tree_;
};
}  // namespace internal

/// Repeats `value = body(value)` while `condition(value)` holds; condition returns a scalar pred.
/// The body must keep tree, shapes and dtypes: TypeError naming the leaf that changes.
template <class T, class Condition, class Body>
internal::carried_t<T> while_loop(Condition condition, Body body, const T& init,
                                  Location location = Location::current()) {
  using Value = internal::carried_t<T>;
  static_assert(TreeLike<Value>, "tessera: while_loop carries a tree of Array");
  static_assert(std::is_invocable_r_v<Array, Condition, Value>,
                "tessera: while_loop's condition takes the carried value and returns an Array");
  static_assert(std::is_invocable_r_v<Value, Body, Value>,
                "tessera: while_loop's body takes the carried value and returns one of that type");
  const Value value(init);
  return tree_unflatten(
      value, internal::while_core(
                 tree_leaves(value), internal::paths_of(value),
                 internal::flat(value, [&](const Value& v) { return Array(condition(v)); }),
                 [&](const std::vector<Array>& leaves) {
                   return internal::next_leaves(value, Value(body(tree_unflatten(value, leaves))),
                                                "while_loop", location);
                 },
                 "while_loop", location));
}

/// `for (i = lower; i < upper; ++i) value = body(i, value)`. With plain numbers as bounds the trip
/// count is known to the compiler.
template <class T, class Body>
internal::carried_t<T> fori_loop(const Array& lower, const Array& upper, Body body, const T& init,
                                 Location location = Location::current()) {
  using Value = internal::carried_t<T>;
  static_assert(TreeLike<Value>, "tessera: fori_loop carries a tree of Array");
  static_assert(std::is_invocable_r_v<Value, Body, Array, Value>,
                "tessera: fori_loop's body takes the index and the carried value and returns one "
                "of that type");
  const Value value(init);
  return tree_unflatten(
      value, internal::fori_core(
                 lower, upper, tree_leaves(value), internal::paths_of(value),
                 [&](const std::vector<Array>& leaves) {
                   const std::vector<Array> rest(leaves.begin() + 1, leaves.end());
                   return internal::next_leaves(value,
                                                Value(body(leaves[0], tree_unflatten(value, rest))),
                                                "fori_loop", location);
                 },
                 location));
}

/// `pred ? on_true(operands...) : on_false(operands...)`; only the branch taken runs. Both must
/// return the same tree of the same types.
template <class OnTrue, class OnFalse, class... T>
auto cond(Operand predicate, OnTrue on_true, OnFalse on_false, const T&... operands) {
  static_assert((TreeLike<internal::carried_t<T>> && ...),
                "tessera: cond's operands are trees of Array");
  static_assert(std::is_invocable_v<OnTrue, internal::carried_t<T>...> &&
                    std::is_invocable_v<OnFalse, internal::carried_t<T>...>,
                "tessera: cond's branches take its operands");
  using R = std::remove_cvref_t<std::invoke_result_t<OnTrue, internal::carried_t<T>...>>;
  static_assert(
      std::is_same_v<R,
                     std::remove_cvref_t<std::invoke_result_t<OnFalse, internal::carried_t<T>...>>>,
      "tessera: cond's branches return the same type");
  static_assert(TreeLike<R>, "tessera: cond's branches return a tree of Array");
  const std::tuple<internal::carried_t<T>...> all(operands...);
  internal::BranchResults<R> results("cond", predicate.location);
  auto branch = [&](const auto& f) -> internal::FlatFunction {
    return [&, f](const std::vector<Array>& leaves) {
      return results.add(std::apply(f, tree_unflatten(all, leaves)));
    };
  };
  std::vector<Array> leaves =
      internal::cond_core(predicate.array, true, {branch(on_false), branch(on_true)},
                          tree_leaves(all), "cond", predicate.location);
  return tree_unflatten(results.first(), leaves);
}

/// branches[index](operands...), the index clamped to the branches there are.
template <class R, TreeLike... T>
R switch_case(Operand index, const std::vector<std::function<R(T...)>>& branches,
              const std::type_identity_t<T>&... operands) {
  const std::tuple<T...> all(operands...);
  internal::BranchResults<R> results("switch_case", index.location);
  std::vector<internal::FlatFunction> flat;
  for (const auto& f : branches) {
    flat.push_back([&all, &results, f](const std::vector<Array>& leaves) {
      return results.add(std::apply(f, tree_unflatten(all, leaves)));
    });
  }
  std::vector<Array> leaves = internal::cond_core(index.array, false, flat, tree_leaves(all),
                                                  "switch_case", index.location);
  return tree_unflatten(results.first(), leaves);
}

struct ScanOptions {
  /// Needed when xs has no arrays.
  std::optional<std::int64_t> length{};
  bool reverse = false;
};

/// Carries a value over the leading dimension of xs: `(carry, y) = f(carry, x)`; returns the last
/// carry and the y's stacked along a new leading dimension.
/// @code
/// auto [total, sums] = scan([](Array c, Array x) { return std::pair{c + x, c + x}; },
///                           Array(0.f), xs);
/// @endcode
template <class F, class Init, TreeLike Xs>
auto scan(F f, const Init& init, const Xs& xs, ScanOptions options = {},
          Location location = Location::current()) {
  using Carry = internal::carried_t<Init>;
  static_assert(TreeLike<Carry>, "tessera: scan carries a tree of Array");
  static_assert(std::is_invocable_v<F, Carry, Xs>,
                "tessera: scan's function takes the carried value and a slice of xs");
  using Step = std::remove_cvref_t<std::invoke_result_t<F, Carry, Xs>>;
  static_assert(internal::is_pair_like<Step>(),
                "tessera: scan's function returns a pair: the next carried value and what is "
                "stacked (an empty std::tuple<> stacks nothing)");
  static_assert(std::is_convertible_v<std::tuple_element_t<0, Step>, Carry>,
                "tessera: scan's function returns the carried value first, of the same type");
  using Y = std::remove_cvref_t<std::tuple_element_t<1, Step>>;
  static_assert(TreeLike<Y>, "tessera: scan's function returns trees of Array");
  const Carry first(init);
  const std::size_t carries = tree_leaves(first).size();
  std::shared_ptr<Y> prototype;
  internal::ScanCore core;
  core.length = options.length.value_or(-1);
  core.reverse = options.reverse;
  std::vector<Array> leaves = internal::scan_core(
      tree_leaves(first), internal::paths_of(first), tree_leaves(xs),
      [&](const std::vector<Array>& in) {
        const auto split = in.begin() + std::ptrdiff_t(carries);
        auto [carry, y] = f(tree_unflatten(first, std::vector<Array>(in.begin(), split)),
                            tree_unflatten(xs, std::vector<Array>(split, in.end())));
        std::vector<Array> out = internal::next_leaves(first, Carry(carry), "scan", location);
        if (out.size() != carries) {
          throw TypeError("scan: the carry has " + std::to_string(carries) +
                              " arrays, and the function returns " + std::to_string(out.size()),
                          location);
        }
        prototype = std::make_shared<Y>(y);
        const std::vector<Array> ys = tree_leaves(*prototype);
        out.insert(out.end(), ys.begin(), ys.end());
        return out;
      },
      core, location);
  const auto split = leaves.begin() + std::ptrdiff_t(carries);
  return std::pair<Carry, Y>(tree_unflatten(first, std::vector<Array>(leaves.begin(), split)),
                             tree_unflatten(*prototype, std::vector<Array>(split, leaves.end())));
}

}  // namespace tessera
