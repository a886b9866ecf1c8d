// SPDX-License-Identifier: Apache-2.0
// Functions of the host that programs call while they run, and views into running programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/placement.h>
#include <tessera/sharding.h>
#include <tessera/sharding_rule.h>
#include <tessera/tree.h>

namespace tessera {

/// How a `vmap` of a callback calls the function.
enum class VmapMethod : std::uint8_t {
  sequential,     ///< for one entry after the other
  expand_dims,    ///< once; arguments that aren't batched have a leading dimension of 1
  broadcast_all,  ///< once; all arguments have the batch as leading dimension
};

/// Options of `pure_callback`.
struct PureCallbackOptions {
  /// See VmapMethod.
  VmapMethod vmap_method = VmapMethod::sequential;
  /// How the dimensions of arguments and results correspond (see ShardingRule). Along factors that
  /// aren't listed in `need_replication_factors` arrays may be split, and the function is called
  /// for the parts. Without a rule it gets whole arrays.
  std::string sharding_rule{};
  /// Factors of the rule of which the function needs all.
  std::vector<std::string> need_replication_factors{};
};
/// Options of `io_callback`.
struct IoCallbackOptions {
  /// Calls happen in the order of the program, as far as one function body states it.
  bool ordered = false;
};

namespace internal {

using HostFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

std::vector<Array> pure_callback_leaves(HostFunction f, const std::vector<Array>& results,
                                        const std::vector<Array>& arguments,
                                        const PureCallbackOptions& options, Location location);
std::vector<Array> io_callback_leaves(HostFunction f, const std::vector<Array>& results,
                                      const std::vector<Array>& arguments,
                                      const IoCallbackOptions& options, Location location);
void debug_callback_leaves(HostFunction f, const std::vector<Array>& arguments, bool ordered,
                           Location location);
void debug_print(const std::string& format, const std::vector<Array>& arguments, bool ordered,
                 Location location);

/// An argument of a callback as a tree: numbers become arrays.
template <class T>
auto callback_argument(const T& value) {
  if constexpr (TreeLike<T>) {
    return value;
  } else {
    static_assert(std::is_convertible_v<T, Array>,
                  "tessera: arguments of a callback are trees of Array, or numbers");
    return Array(value);
  }
}

template <class... Args>
std::vector<Array> callback_leaves(const Args&... args) {
  std::vector<Array> out;
  const auto add = [&](const auto& tree) {
    for (const Array& leaf : tree_leaves(tree)) out.push_back(leaf);
  };
  (add(args), ...);
  return out;
}

/// `f` as a function of the leaves of `args`.
template <class F, class... Args>
auto on_leaves(F f, Args... args) {
  return [f = std::move(f), args = std::tuple(std::move(args)...)](
             const std::vector<Array>& leaves) mutable -> decltype(auto) {
    std::size_t next = 0;
    const auto take = [&](const auto& like) {
      const std::size_t n = tree_leaves(like).size();
      const auto first = leaves.begin() + std::ptrdiff_t(next);
      next += n;
      return tree_unflatten(like, std::vector<Array>(first, first + std::ptrdiff_t(n)));
    };
    return std::apply(
        [&](const auto&... like) {
          // Braces evaluate from left to right.
          std::tuple<std::decay_t<decltype(like)>...> in{take(like)...};
          return std::apply(f, std::move(in));
        },
        args);
  };
}

}  // namespace internal

/// Calls a function of the host from a program (jax.pure_callback).
///
/// The function gets arrays with values, may compute them in any way, and must depend on its
/// arguments only: calls may be removed, merged, or made once for all devices that hold the same.
/// It may be called from another thread. In code per device it gets the device's part; elsewhere
/// whole arrays, or with a `sharding_rule` parts. It has no derivative: give it one by custom_jvp.
/// @code
/// const Array y = pure_callback([](Array x) { return table_lookup(x); }, x_like, options, x);
/// @endcode
/// @param f  Takes the arguments' trees and returns a tree like `result`.
/// @param result  A tree of arrays, or of shape_dtype_structs, that says what `f` returns.
/// @param options  See PureCallbackOptions.
/// @param args  Trees of arrays, or numbers.
///
/// While the program runs:
/// @throws TypeError if `f` returns other shapes or dtypes than `result` says. What `f` throws
/// passes
///   through.
template <class F, TreeLike R, class... Args>
R pure_callback(F f, const R& result, const PureCallbackOptions& options, const Args&... args) {
  auto call = internal::on_leaves(std::move(f), internal::callback_argument(args)...);
  internal::HostFunction flat = [call](const std::vector<Array>& in) mutable {
    return tree_leaves(R(call(in)));
  };
  return tree_unflatten(result, internal::pure_callback_leaves(
                                    std::move(flat), tree_leaves(result),
                                    internal::callback_leaves(internal::callback_argument(args)...),
                                    options, Location{}));
}
/// The same with default options.
template <class F, TreeLike R, class... Args>
requires(!std::is_same_v<std::decay_t<std::tuple_element_t<0, std::tuple<Args..., int>>>,
                         PureCallbackOptions>) R
    pure_callback(F f, const R& result, const Args&... args) {
  return pure_callback(std::move(f), result, PureCallbackOptions{}, args...);
}

/// Calls a function of the host that has effects (jax.experimental.io_callback): exactly once each
/// time that the program gets there, in code per device for each device's part.
///
/// As `pure_callback`, but calls are neither removed nor merged. Batched it is called for one entry
/// after the other; a vmap with an axis_name refuses `ordered` (ValueError).
template <class F, TreeLike R, class... Args>
R io_callback(F f, const R& result, const IoCallbackOptions& options, const Args&... args) {
  auto call = internal::on_leaves(std::move(f), internal::callback_argument(args)...);
  internal::HostFunction flat = [call](const std::vector<Array>& in) mutable {
    return tree_leaves(R(call(in)));
  };
  return tree_unflatten(result, internal::io_callback_leaves(
                                    std::move(flat), tree_leaves(result),
                                    internal::callback_leaves(internal::callback_argument(args)...),
                                    options, Location{}));
}
/// The same with default options.
template <class F, TreeLike R, class... Args>
requires(!std::is_same_v<std::decay_t<std::tuple_element_t<0, std::tuple<Args..., int>>>,
                         IoCallbackOptions>) R
    io_callback(F f, const R& result, const Args&... args) {
  return io_callback(std::move(f), result, IoCallbackOptions{}, args...);
}

namespace debug {

/// Calls a function of the host with values of a running program (jax.debug.callback). What it
/// returns is dropped. Derivatives call it for the values that they compute, batches for one entry
/// after the other.
template <class F, class... Args>
void callback(F f, const Args&... args) {
  auto call = internal::on_leaves(std::move(f), internal::callback_argument(args)...);
  internal::HostFunction flat = [call](const std::vector<Array>& in) mutable {
    call(in);
    return std::vector<Array>();
  };
  internal::debug_callback_leaves(std::move(flat),
                                  internal::callback_leaves(internal::callback_argument(args)...),
                                  false, Location{});
}

/// A format, and the line that it stands in.
struct Format {
  /// Converted implicitly from text.
  template <class Text>
  requires std::is_convertible_v<Text, std::string> Format(  // NOLINT: implicit by design
      const Text& text, Location location = Location::current())
      : text(text), location(location) {}
  std::string text;   ///< see `print`
  Location location;  ///< of the call
};

/// Prints values of a running program to standard output (jax.debug.print): once for a program, and
/// in code per device for each device.
/// @code
/// auto f = jit([](Array x) { debug::print("x = {}, sum = {:.3f}", x, sum(x)); return x + 1; });
/// @endcode
/// @param format  `{}` for each argument in turn, or `{1}`; scalars take format specifiers as in
///   std::format. A line break is added.
/// @param args  Arrays, or numbers.
/// @throws ValueError if the format can't be read, or names an argument that isn't there.
template <class... Args>
void print(const Format& format, const Args&... args) {
  internal::debug_print(format.text,
                        internal::callback_leaves(internal::callback_argument(args)...), false,
                        format.location);
}

}  // namespace debug

/// Calls a function with the sharding that a value gets (jax.debug.inspect_array_sharding): in a
/// traced function when the program has been compiled, with what propagation chose; eagerly at
/// once.
/// @param x  An array.
/// @param f  Called once for each program that is compiled.
/// @param location  The line named in messages.
void inspect_array_sharding(const Array& x, std::function<void(const Sharding&)> f,
                            Location location = Location::current());

}  // namespace tessera
