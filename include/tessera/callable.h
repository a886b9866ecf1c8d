// SPDX-License-Identifier: Apache-2.0
// Which arguments a callable takes. Operand counts as Array; `auto` receives Array.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/array.h>
#include <tessera/tree.h>

namespace tessera {

/// Positions of parameters that aren't traced: `jit(f, static_argnums<1>)`. Their values are part
/// of the cache key; they may be numbers, enums and strings.
template <int... I>
struct StaticArgnums {
  static constexpr bool contains(int i) { return ((i == I) || ...); }
  static constexpr int largest() {
    int m = -1;
    ((m = I > m ? I : m), ...);
    return m;
  }
};
template <int... I>
inline constexpr StaticArgnums<I...> static_argnums{};

namespace internal {

template <class T>
struct signature_of;  // undefined: overloaded or generic
template <class R, class... A>
struct signature_of<R (*)(A...)> {
  using args = std::tuple<std::remove_cvref_t<A>...>;
};
template <class R, class... A>
struct signature_of<R (*)(A...) noexcept> : signature_of<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature_of<R (C::*)(A...) const> : signature_of<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature_of<R (C::*)(A...)> : signature_of<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature_of<R (C::*)(A...) const noexcept> : signature_of<R (*)(A...)> {};

template <class F>
concept PlainFunction = std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>;
template <class F>
concept PlainFunctor = requires {
  &F::operator();
};
/// The parameter types are known without a call.
template <class F>
concept KnownSignature = PlainFunction<F> || PlainFunctor<F>;

template <class F>
struct args_of;
template <PlainFunction F>
struct args_of<F> {
  using type = typename signature_of<F>::args;
};
template <PlainFunctor F>
struct args_of<F> {
  using type = typename signature_of<decltype(&F::operator())>::args;
};

/// What a traced parameter holds while tracing: Operand is an Array.
template <class T>
using traced_type = std::conditional_t<std::is_same_v<T, Operand>, Array, T>;

/// For generic callables: the argument as the callable receives it.
template <class T, bool is_static>
struct deduced_arg {
  using type = std::conditional_t<!is_static && is_static_like<T>, Array, T>;
};

template <class F, class Statics, class Given, class Seq>
struct call_args;
template <class F, class Statics, class... G, std::size_t... I>
struct call_args<F, Statics, std::tuple<G...>, std::index_sequence<I...>> {
  static auto pick() {
    if constexpr (KnownSignature<F>) {
      return std::type_identity<typename args_of<F>::type>{};
    } else {
      return std::type_identity<std::tuple<
          typename deduced_arg<std::remove_cvref_t<G>, Statics::contains(I)>::type...>>{};
    }
  }
  using type = typename decltype(pick())::type;
};

/// Parameter types of F called with Given...
template <class F, class Statics, class... Given>
using call_args_t =
    typename call_args<F, Statics, std::tuple<Given...>, std::index_sequence_for<Given...>>::type;

template <class T, bool is_static>
constexpr bool check_argument() {
  if constexpr (is_static) {
    static_assert(is_static_like<T>,
                  "tessera: a static argument must be a number, an enum or a string");
  } else {
    static_assert(!is_static_like<T>,
                  "tessera: a parameter of arithmetic, string or enum type must be listed in "
                  "static_argnums (or take Array to be traced)");
    static_assert(is_tree<T>() || is_static_like<T>,
                  "tessera: a traced parameter must be a tree of Array: Array, vector, array, map, "
                  "pair, tuple, optional, or a plain struct of these");
  }
  return true;
}

template <class Args, class Statics, std::size_t... I>
constexpr bool check_arguments(std::index_sequence<I...>) {
  static_assert(Statics::largest() < int(sizeof...(I)),
                "tessera: static_argnums names a position that the function doesn't have");
  return (check_argument<std::tuple_element_t<I, Args>, Statics::contains(int(I))>() && ...);
}

}  // namespace internal
}  // namespace tessera
