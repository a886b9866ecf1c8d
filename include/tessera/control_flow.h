// SPDX-License-Identifier: Apache-2.0
// Control flow that is part of compiled programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/held_arguments.h>
#include <tessera/detail/tree_differences.h>
#include <tessera/tree.h>

/// @file
/// Loops and branches that are part of the compiled program, as in jax.lax. C++ control flow, in
/// contrast, runs while a function is traced.
///
/// Functions given here are traced once. Values carried by loops and passed to branches are trees
/// of Array; plain numbers count as scalar arrays. Arrays that the functions capture become
/// operands. In code that is per device (`shard_map`) carried values and branch results must vary
/// over the same mesh axes (see `pcast`); a mismatch is a TypeError.

namespace tessera {

namespace internal {

using FlatFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

std::vector<Array> while_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                              const FlatFunction& condition, const FlatFunction& body,
                              const std::string& name, Location location);
std::vector<Array> fori_core(const Array& lower, const Array& upper, const std::vector<Array>& init,
                             const std::vector<std::string>& paths, const FlatFunction& body,
                             Location location);
/// `result_paths`: of the results' leaves, asked once a branch has been traced.
std::vector<Array> cond_core(const Array& index, bool is_predicate,
                             const std::vector<FlatFunction>& branches,
                             const std::vector<Array>& operands,
                             const std::function<std::vector<std::string>()>& result_paths,
                             const std::string& name, Location location);
struct ScanCore {
  std::int64_t length = -1;  ///< -1: from xs
  bool reverse = false;
  std::int64_t unroll = 1;    ///< 0: all steps
  const char* name = "scan";  ///< in messages
};
/// Returns the carry's leaves, then those of the stacked outputs. The first `init.size()` leaves of
/// f's result are the carry.
std::vector<Array> scan_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                             const std::vector<Array>& xs, const FlatFunction& f,
                             const ScanCore& options, Location location);

template <class T>
std::vector<std::string> paths_of(const T& value) {
  return leaf_paths([&](TreeVisitor& v) { visit_tree(const_cast<T&>(value), v); });
}
/// The type in which a value is carried: Array for a plain number.
template <class T>
using carried_t = std::conditional_t<ScalarLike<T>, Array, T>;
template <class T, class F>
FlatFunction flat(const T& prototype, F f) {
  return [&prototype, f](const std::vector<Array>& leaves) {
    return tree_leaves(f(tree_unflatten(prototype, leaves)));
  };
}
/// The leaves of the next carried value that a loop's function returns. TypeError if its tree isn't
/// that of `carried`.
template <class T>
std::vector<Array> next_leaves(const T& carried, const T& next, const char* loop,
                               Location location) {
  const std::string differ = tree_differences(carried, next, {"carry", "before", "after the body"});
  if (!differ.empty()) {
    throw TypeError(std::string(loop) + ": the body must keep the tree of the carry: " + differ +
                        "; valid: a body that returns a tree like the initial carry",
                    location);
  }
  return tree_leaves(next);
}
/// The name of a branch in messages: "the true branch", "branch 2".
std::string branch_name(std::size_t branch, bool is_predicate);
/// Collects the results of branches, which have one C++ type, and checks that their trees agree.
template <class R>
class BranchResults {
 public:
  BranchResults(const char* api, bool is_predicate, Location location)
      : api_(api), is_predicate_(is_predicate), location_(location) {}
  /// The leaves of the result of a branch; the branches come in order.
  std::vector<Array> add(R result) {
    const std::size_t branch = count_++;
    if (branch == 0) {
      first_ = std::make_shared<R>(std::move(result));
      return tree_leaves(*first_);
    }
    const std::string differ = tree_differences(*first_, result,
                                                {"result", "in " + branch_name(0, is_predicate_),
                                                 "in " + branch_name(branch, is_predicate_)});
    if (!differ.empty()) {
      throw TypeError(std::string(api_) + ": the branches must return the same tree: " + differ +
                          "; valid: branches that return trees with the same keys and numbers of "
                          "elements",
                      location_);
    }
    return tree_leaves(result);
  }
  const R& first() const { return *first_; }
  /// Of the leaves of the results.
  std::vector<std::string> paths() const { return paths_of(*first_); }

 private:
  const char* api_;
  bool is_predicate_;
  Location location_;
  std::shared_ptr<R> first_;
  std::size_t count_ = 0;
};
}  // namespace internal

/// Repeats `value = body(value)` while `condition(value)` is true (jax.lax.while_loop).
/// @code
/// // The largest power of 2 below 100.
/// Array x = while_loop([](Array v) { return v * 2 < 100; }, [](Array v) { return v * 2; }, 1);
/// @endcode
/// @param condition  Takes the carried value and returns a scalar pred.
/// @param body  Takes the carried value and returns the next one, of the same tree, shapes and
///   dtypes.
/// @param init  The initial value. Plain numbers in it adopt the dtype that the body gives them, if
///   promotion leads there: 1 may become an f32, 1.5 no s32.
/// @param location  The line named in messages.
/// @return The last carried value. Weakly typed is what is so before and after the body.
/// @throws TypeError if the body changes the tree, a shape or a dtype (the message names the place,
///   and what is there before and after), or the condition doesn't return a scalar pred.
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

/// Counted loop: `for (i = lower; i < upper; ++i) value = body(i, value)` (jax.lax.fori_loop).
/// @code
/// Array factorial = fori_loop(1, 6, [](Array i, Array v) { return v * i; }, 1);   // 120
/// @endcode
/// @param lower  First index: an integer scalar.
/// @param upper  Bound, not included: an integer scalar. If both bounds are plain numbers the
///   compiler knows the trip count.
/// @param body  Takes the index (s32 for plain bounds) and the carried value, and returns the next
///   one.
/// @param init  The initial value.
/// @param location  The line named in messages.
/// @return The last carried value.
/// @throws TypeError if a bound isn't an integer scalar, or the body changes the tree, a shape or a
///   dtype.
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

/// Runs one of two functions: `predicate ? on_true(operands...) : on_false(operands...)`
/// (jax.lax.cond).
/// @code
/// Array y = cond(sum(x) > 0, [](Array v) { return v * 2; }, [](Array v) { return -v; }, x);
/// @endcode
/// @param predicate  A scalar pred, or an integer that is tested for nonzero.
/// @param on_true  Takes the operands.
/// @param on_false  Takes the operands; returns the same tree, shapes and dtypes as `on_true`.
///   Where one returns a plain number it adopts the other's dtype, if promotion leads there.
/// @param operands  Trees of arrays.
/// @throws TypeError if the predicate is neither, or the branches' results differ in tree, shape or
///   dtype.
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
  internal::BranchResults<R> results("cond", true, predicate.location);
  auto branch = [&](const auto& f) -> internal::FlatFunction {
    return [&, f](const std::vector<Array>& leaves) {
      return results.add(std::apply(f, tree_unflatten(all, leaves)));
    };
  };
  std::vector<Array> leaves = internal::cond_core(
      predicate.array, true, {branch(on_false), branch(on_true)}, tree_leaves(all),
      [&] { return results.paths(); }, "cond", predicate.location);
  return tree_unflatten(results.first(), leaves);
}

/// Runs one of several functions: `branches[index](operands...)`, with the index clamped to the
/// range of branches (jax.lax.switch).
/// @param index  An integer scalar.
/// @param branches  Take the operands and return the same shapes and dtypes.
/// @param operands  Trees of arrays.
/// @throws ValueError if there are no branches.
/// @throws TypeError if the index isn't an integer scalar, or the branches' results differ in tree,
///   shape or dtype.
template <class R, TreeLike... T>
R switch_case(Operand index, const std::vector<std::function<R(T...)>>& branches,
              const std::type_identity_t<T>&... operands) {
  const std::tuple<T...> all(operands...);
  internal::BranchResults<R> results("switch_case", false, index.location);
  std::vector<internal::FlatFunction> flat;
  for (const auto& f : branches) {
    flat.push_back([&all, &results, f](const std::vector<Array>& leaves) {
      return results.add(std::apply(f, tree_unflatten(all, leaves)));
    });
  }
  std::vector<Array> leaves = internal::cond_core(
      index.array, false, flat, tree_leaves(all), [&] { return results.paths(); }, "switch_case",
      index.location);
  return tree_unflatten(results.first(), leaves);
}

/// The same with branches of any types, which all take `operands`.
/// @code
/// Array y = switch_case(i, std::tuple([](Array x) { return x; }, [](Array x) { return -x; }), x);
/// @endcode
template <class... F, TreeLike... T>
requires(sizeof...(F) > 0) auto switch_case(Operand index, const std::tuple<F...>& branches,
                                            const T&... operands) {
  using R = std::decay_t<
      std::invoke_result_t<const std::tuple_element_t<0, std::tuple<F...>>&, const T&...>>;
  static_assert(
      (std::is_same_v<R, std::decay_t<std::invoke_result_t<const F&, const T&...>>> && ...),
      "tessera: the branches of switch_case return one type");
  return std::apply(
      [&](const auto&... f) {
        return switch_case(index, std::vector<std::function<R(T...)>>{f...}, operands...);
      },
      branches);
}

/// How many steps of a `scan` one trip of the compiled loop does: a number, 0 for all of them, or
/// true for all and false for one.
struct ScanUnroll {
  std::int64_t steps = 1;  ///< 0: all
  /// One step in a trip.
  constexpr ScanUnroll() = default;
  /// From a number of steps, or from whether to unroll all of them.
  template <class T>
  requires std::is_integral_v<T>
  // NOLINTNEXTLINE(google-explicit-constructor): as JAX takes a number or a bool
  constexpr ScanUnroll(T n) : steps(std::is_same_v<T, bool> ? (n ? 0 : 1) : std::int64_t(n)) {}
};

/// Options of `scan`.
struct ScanOptions {
  /// Number of steps; required if xs has no arrays.
  std::optional<std::int64_t> length{};
  /// Go from the last element to the first. Outputs are stacked in the order of xs.
  bool reverse = false;
  /// Steps in a trip of the loop. Where the length is no multiple, the steps that are left over
  /// follow the loop; as many as there are, or more, make no loop. Larger programs compile more
  /// slowly.
  ScanUnroll unroll{};
};

/// Loops over the leading dimension of arrays, carrying a value: `(carry, y) = f(carry, x)`
/// (jax.lax.scan).
/// @code
/// // Sum, and prefix sums, of a vector xs.
/// auto [total, sums] = scan([](Array c, Array x) { return std::pair{c + x, c + x}; },
///                           Array(0.f), xs);
/// @endcode
/// @param f  Takes the carried value and one slice of xs; returns a pair of the next carried value,
///   of the same tree, shapes and dtypes, and an output (`std::tuple<>` for none).
/// @param init  The initial carried value.
/// @param xs  A tree of arrays [N, ..].
/// @param options  Length, direction and how far to unroll.
/// @param location  The line named in messages.
/// @return The last carried value, and the outputs stacked along a new leading dimension: [..] ->
///   [N, ..].
/// @throws ValueError if the leading dimensions differ, an array is a scalar, there are neither
///   arrays nor a length, the length is 2^31 or more, or `unroll` is negative.
/// @throws TypeError if the function changes the tree, a shape or a dtype of the carried value.
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
  core.unroll = options.unroll.steps;
  std::vector<Array> leaves = internal::scan_core(
      tree_leaves(first), internal::paths_of(first), tree_leaves(xs),
      [&](const std::vector<Array>& in) {
        const auto split = in.begin() + std::ptrdiff_t(carries);
        auto [carry, y] = f(tree_unflatten(first, std::vector<Array>(in.begin(), split)),
                            tree_unflatten(xs, std::vector<Array>(split, in.end())));
        std::vector<Array> out = internal::next_leaves(first, Carry(carry), "scan", location);
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

/// Applies a function to the slices of arrays along their leading dimension, one after the other
/// (jax.lax.map): a `scan` that carries nothing. Memory for one slice's intermediates is enough.
/// @code
/// // m mᵀ of each matrix of a batch [N, n, k], one at a time: [N, n, n].
/// Array products = map([](Array m) { return matmul(m, transpose(m)); }, matrices);
/// @endcode
/// @param f  Takes one slice of xs and returns a tree of arrays.
/// @param xs  A tree of arrays [N, ..].
/// @param location  The line named in messages.
/// @return The results stacked along a new leading dimension: [..] -> [N, ..].
/// @throws ValueError if xs has no arrays, its leading dimensions differ, or an array is a scalar.
template <class F, TreeLike Xs>
auto map(F f, const Xs& xs, Location location = Location::current()) {
  static_assert(std::is_invocable_v<F, Xs>, "tessera: map's function takes a slice of xs");
  static_assert(TreeLike<std::remove_cvref_t<std::invoke_result_t<F, Xs>>>,
                "tessera: map's function returns a tree of Array");
  if (tree_leaves(xs).empty()) throw ValueError("map: xs has no arrays to go over", location);
  using Y = std::remove_cvref_t<std::invoke_result_t<F, Xs>>;
  std::shared_ptr<Y> prototype;
  internal::ScanCore core;
  core.name = "map";
  const std::vector<Array> leaves = internal::scan_core(
      {}, {}, tree_leaves(xs),
      [&](const std::vector<Array>& slices) {
        prototype = std::make_shared<Y>(f(tree_unflatten(xs, slices)));
        return tree_leaves(*prototype);
      },
      core, location);
  return tree_unflatten(*prototype, leaves);
}

}  // namespace tessera
