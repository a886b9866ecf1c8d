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
#include <tessera/sharding/sharding_rule.h>
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
  [[maybe_unused]] const auto add = [&](const auto& tree) {
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

/// `debug::callback` at a line.
template <class F, class... Args>
void debug_callback_at(Location location, F f, const Args&... args) {
  auto call = on_leaves(std::move(f), callback_argument(args)...);
  HostFunction flat = [call](const std::vector<Array>& in) mutable {
    call(in);
    return std::vector<Array>();
  };
  debug_callback_leaves(std::move(flat), callback_leaves(callback_argument(args)...), false,
                        location);
}

/// The calls of pure_callback and io_callback, with options and without. They record the user's
/// line for up to five arguments; messages about others name none.
template <class Options>
class HostCalls {
 public:
  /// Calls the function; messages name `location`.
  template <class F, TreeLike R, class... Args>
  R call_at(Location location, F f, const R& result, const Options& options,
            const Args&... args) const {
    auto call = on_leaves(std::move(f), callback_argument(args)...);
    HostFunction flat = [call](const std::vector<Array>& in) mutable {
      return tree_leaves(R(call(in)));
    };
    const std::vector<Array> declared = tree_leaves(result);
    const std::vector<Array> leaves = callback_leaves(callback_argument(args)...);
    if constexpr (std::is_same_v<Options, PureCallbackOptions>) {
      return tree_unflatten(
          result, pure_callback_leaves(std::move(flat), declared, leaves, options, location));
    } else {
      return tree_unflatten(
          result, io_callback_leaves(std::move(flat), declared, leaves, options, location));
    }
  }

  template <class F, TreeLike R>
  auto operator()(F f, const R& result, const Options& options,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options);
  }
  template <class F, TreeLike R, class A>
  auto operator()(F f, const R& result, const Options& options, const A& a,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options, a);
  }
  template <class F, TreeLike R, class A, class B>
  auto operator()(F f, const R& result, const Options& options, const A& a, const B& b,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options, a, b);
  }
  template <class F, TreeLike R, class A, class B, class C>
  auto operator()(F f, const R& result, const Options& options, const A& a, const B& b, const C& c,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options, a, b, c);
  }
  template <class F, TreeLike R, class A, class B, class C, class D>
  auto operator()(F f, const R& result, const Options& options, const A& a, const B& b, const C& c,
                  const D& d, Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options, a, b, c, d);
  }
  template <class F, TreeLike R, class A, class B, class C, class D, class E>
  auto operator()(F f, const R& result, const Options& options, const A& a, const B& b, const C& c,
                  const D& d, const E& e, Location l = Location::current()) const {
    return call_at(l, std::move(f), result, options, a, b, c, d, e);
  }
  template <class F, TreeLike R>
  auto operator()(F f, const R& result, Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{});
  }
  template <class F, TreeLike R, class A>
  auto operator()(F f, const R& result, const A& a, Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{}, a);
  }
  template <class F, TreeLike R, class A, class B>
  auto operator()(F f, const R& result, const A& a, const B& b,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{}, a, b);
  }
  template <class F, TreeLike R, class A, class B, class C>
  auto operator()(F f, const R& result, const A& a, const B& b, const C& c,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{}, a, b, c);
  }
  template <class F, TreeLike R, class A, class B, class C, class D>
  auto operator()(F f, const R& result, const A& a, const B& b, const C& c, const D& d,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{}, a, b, c, d);
  }
  template <class F, TreeLike R, class A, class B, class C, class D, class E>
  auto operator()(F f, const R& result, const A& a, const B& b, const C& c, const D& d, const E& e,
                  Location l = Location::current()) const {
    return call_at(l, std::move(f), result, Options{}, a, b, c, d, e);
  }
  template <class F, TreeLike R, class A, class B, class C, class E, class G, class H,
            class... More>
  auto operator()(F f, const R& result, const Options& options, const A& a, const B& b, const C& c,
                  const E& e, const G& g, const H& h, const More&... more) const {
    return call_at(Location{}, std::move(f), result, options, a, b, c, e, g, h, more...);
  }
  template <class F, TreeLike R, class A, class B, class C, class E, class G, class H,
            class... More>
  requires(!std::is_same_v<A, Options>) auto operator()(F f, const R& result, const A& a,
                                                        const B& b, const C& c, const E& e,
                                                        const G& g, const H& h,
                                                        const More&... more) const {
    return call_at(Location{}, std::move(f), result, Options{}, a, b, c, e, g, h, more...);
  }
};

}  // namespace internal

/// The type of pure_callback.
using PureCallback = internal::HostCalls<PureCallbackOptions>;
/// Calls a function of the host from a program (jax.pure_callback).
///
/// The function gets arrays with values, may compute them in any way, and must depend on its
/// arguments only: calls may be removed, merged, or made once for all devices that hold the same.
/// It may be called from another thread. In code per device it gets the device's part; elsewhere
/// whole arrays, or with a `sharding_rule` parts. It has no derivative: give it one by custom_jvp.
/// @code
/// const Array y = pure_callback([](Array x) { return table_lookup(x); }, x_like, options, x);
/// @endcode
/// The arguments of a call are the function, which takes the arguments' trees and returns a tree
/// like the result; a tree of arrays, or of shape_dtype_structs, that says what it returns;
/// PureCallbackOptions, or none; and the function's arguments, trees of arrays or numbers.
///
/// While the program runs, it is a TypeError, with the line of the call, if the function returns
/// other shapes or dtypes than declared. What the function throws passes through.
inline constexpr PureCallback pure_callback{};

/// The type of io_callback.
using IoCallback = internal::HostCalls<IoCallbackOptions>;
/// Calls a function of the host that has effects (jax.experimental.io_callback): exactly once each
/// time that the program gets there, in code per device for each device's part.
///
/// As `pure_callback`, but calls are neither removed nor merged. Batched it is called for one entry
/// after the other, and refused if it is `ordered` (ValueError): the entries of a batch have no
/// order. A call that doesn't depend on the batch is made once.
inline constexpr IoCallback io_callback{};

namespace debug {

/// Calls a function of the host with values of a running program (jax.debug.callback). What it
/// returns is dropped. Derivatives call it for the values that they compute, batches for one entry
/// after the other.
template <class F>
void callback(F f, Location location = Location::current()) {
  internal::debug_callback_at(location, std::move(f));
}
/// The same.
template <class F, class A>
void callback(F f, const A& a, Location location = Location::current()) {
  internal::debug_callback_at(location, std::move(f), a);
}
/// The same.
template <class F, class A, class B>
void callback(F f, const A& a, const B& b, Location location = Location::current()) {
  internal::debug_callback_at(location, std::move(f), a, b);
}
/// The same.
template <class F, class A, class B, class C>
void callback(F f, const A& a, const B& b, const C& c, Location location = Location::current()) {
  internal::debug_callback_at(location, std::move(f), a, b, c);
}
/// The same.
template <class F, class A, class B, class C, class D>
void callback(F f, const A& a, const B& b, const C& c, const D& d,
              Location location = Location::current()) {
  internal::debug_callback_at(location, std::move(f), a, b, c, d);
}
/// The same with more arguments; messages name no line.
template <class F, class A, class B, class C, class D, class E, class... More>
void callback(F f, const A& a, const B& b, const C& c, const D& d, const E& e,
              const More&... more) {
  internal::debug_callback_at(Location{}, std::move(f), a, b, c, d, e, more...);
}

/// A format, and the line that it stands in.
struct Format {
  /// Converted implicitly from text.
  template <class Text>
  requires std::is_convertible_v<Text, std::string> Format(  // NOLINT: implicit by design
      const Text& format, Location at = Location::current())
      : text(format), location(at) {}
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
/// @throws ValueError if the format can't be read, or names an argument that isn't there; it says
///   which replacement fields are valid.
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
