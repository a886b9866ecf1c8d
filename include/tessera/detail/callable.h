// SPDX-License-Identifier: Apache-2.0
// Parameters of traced callables: which are traced and which are static.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/tree.h>

namespace tessera {

/// Type of `static_argnums`.
template <int... I>
struct StaticArgnums {
  /// True if the parameter at position i is static.
  static constexpr bool contains(int i) { return ((i == I) || ...); }
  /// The largest position; -1 if there are none.
  static constexpr int largest() {
    int m = -1;
    ((m = I > m ? I : m), ...);
    return m;
  }
};
/// Positions, from 0, of static parameters, which aren't traced: numbers, enums, strings,
/// containers and plain structs of these, and any type with operator==. The function is traced for
/// each of their values; values are told apart by operator== where the type has its own, and by
/// std::hash too if it is specialized, which is faster for many values.
/// @code
/// auto power = jit([](Array x, int n) { return n == 2 ? x * x : x; }, static_argnums<1>);
/// @endcode
template <int... I>
inline constexpr StaticArgnums<I...> static_argnums{};

namespace internal {
/// A text as a template argument.
template <std::size_t N>
struct FixedText {
  constexpr FixedText(const char (&given)[N]) {  // NOLINT: implicit by design
    for (std::size_t i = 0; i < N; ++i) text[i] = given[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
  char text[N] = {};
};
}  // namespace internal

/// Type of `arg_names`.
template <internal::FixedText... Name>
struct ArgNames {
  /// The position of a name, or -1.
  static constexpr int position(std::string_view wanted) {
    int at = -1, i = 0;
    ((at = at < 0 && Name.view() == wanted ? i : at, ++i), ...);
    return at;
  }
  /// The names.
  static std::vector<std::string> list() { return {std::string(Name.view())...}; }
};
/// The names of a function's arguments, from the first on, where the compiler must know them.
template <internal::FixedText... Name>
inline constexpr ArgNames<Name...> arg_names{};

/// Type of `static_argnames`.
template <internal::FixedText... Name>
struct StaticArgnames {
  /// The positions of the names.
  template <class Names>
  static constexpr auto positions() {
    constexpr bool known = ((Names::position(Name.view()) >= 0) && ...);
    static_assert(known, "tessera: static_argnames has a name that arg_names doesn't list");
    if constexpr (known) {
      return StaticArgnums<Names::position(Name.view())...>();
    } else {
      return StaticArgnums<>();
    }
  }
};
/// Names of static parameters, as `static_argnums` has their positions. C++ doesn't know the names
/// of parameters: `arg_names` lists them.
/// @code
/// auto power = jit([](Array x, int n) { return n == 2 ? x * x : x; },
///                  static_argnames<"n">, arg_names<"x", "n">);
/// @endcode
template <internal::FixedText... Name>
inline constexpr StaticArgnames<Name...> static_argnames{};

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
/// The objects that jit and shard_map return have the parameters of the function that they wrap.
template <class F>
struct has_known_signature : std::bool_constant<PlainFunction<F> || PlainFunctor<F>> {};
template <class F>
requires requires { typename F::wrapped_function; }
struct has_known_signature<F> : has_known_signature<typename F::wrapped_function> {};
/// The parameter types are known without a call.
template <class F>
concept KnownSignature = has_known_signature<F>::value;

template <class F>
struct args_of;
template <class F>
requires requires { typename F::wrapped_function; }
struct args_of<F> : args_of<typename F::wrapped_function> {};
template <PlainFunction F>
struct args_of<F> {
  using type = typename signature_of<F>::args;
};
template <PlainFunctor F>
struct args_of<F> {
  using type = typename signature_of<decltype(&F::operator())>::args;
};

/// The type of a traced parameter while tracing: Array in place of Operand.
template <class T>
using traced_type = std::conditional_t<std::is_same_v<T, Operand>, Array, T>;

/// For generic callables: the type of an argument as the callable receives it. String literals are
/// const char*.
template <class T, bool is_static>
struct deduced_arg {
  using Value = std::conditional_t<std::is_array_v<T>, std::decay_t<const T>, T>;
  using type = std::conditional_t<!is_static && is_static_like<Value>, Array, Value>;
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
    check_static<T>();
  } else {
    static_assert(!is_static_like<T>,
                  "tessera: a parameter of arithmetic, string or enum type must be listed in "
                  "static_argnums (or take Array to be traced)");
    static_assert(is_static_like<T> || !fields_found<T>() || is_tree<T>(),
                  "tessera: a traced parameter must be a tree of Array: Array, vector, array, map, "
                  "pair, tuple, optional, variant, or a plain struct of these (TESSERA_TREE names "
                  "the fields of others)");
  }
  return true;
}

/// Whether arguments of types Given are as many as the parameters Args and convert to them
/// implicitly.
template <class Args, class... Given>
struct arguments_fit : std::false_type {};
template <class... A, class... Given>
requires(sizeof...(A) == sizeof...(Given)) struct arguments_fit<std::tuple<A...>, Given...>
    : std::bool_constant<(std::is_convertible_v<Given, const A&> && ...)> {
};

/// Fails with a readable message in place of the compiler's.
template <class Args, class... Given>
constexpr void explain_misfit() {
  constexpr bool same_number = sizeof...(Given) == std::tuple_size_v<Args>;
  static_assert(
      same_number,
      "tessera: the function is called with a different number of arguments than it takes");
  static_assert(!same_number || arguments_fit<Args, Given...>::value,
                "tessera: an argument of the call doesn't convert to the function's parameter");
}

template <class Args, class Statics, std::size_t... I>
constexpr bool check_arguments(std::index_sequence<I...>) {
  static_assert(Statics::largest() < int(sizeof...(I)),
                "tessera: static_argnums names a position that the function doesn't have");
  return (check_argument<std::tuple_element_t<I, Args>, Statics::contains(int(I))>() && ...);
}

/// The types of the traced arguments, with Array in place of Operand.
template <class Args, class Statics, class Seq = std::make_index_sequence<std::tuple_size_v<Args>>>
struct traced_args;
template <class Args, class Statics, std::size_t... I>
struct traced_args<Args, Statics, std::index_sequence<I...>> {
  template <std::size_t J>
  using one = std::conditional_t<Statics::contains(int(J)), std::tuple<>,
                                 std::tuple<traced_type<std::tuple_element_t<J, Args>>>>;
  using type = decltype(std::tuple_cat(std::declval<one<I>>()...));
};

/// The call operators of a wrapped function, which forward to `D::call_at(location, arguments...)`.
/// They record the user's line: by a defaulted last parameter if the parameter types are known, for
/// generic callables by one overload per number of arguments.
template <class D, class F>
class Calls {
 public:
  auto operator()(Location l = Location::current()) const { return self().call_at(l); }
  template <class A>
  auto operator()(A&& a, Location l = Location::current()) const {
    return self().call_at(l, std::forward<A>(a));
  }
  template <class A, class B>
  auto operator()(A&& a, B&& b, Location l = Location::current()) const {
    return self().call_at(l, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
  auto operator()(A&& a, B&& b, C&& c, Location l = Location::current()) const {
    return self().call_at(l, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class E>
  auto operator()(A&& a, B&& b, C&& c, E&& e, Location l = Location::current()) const {
    return self().call_at(l, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                          std::forward<E>(e));
  }
  /// Five arguments or more: messages name the line where the function was wrapped.
  template <class A, class B, class C, class E, class... G>
  requires(sizeof...(G) > 0) auto operator()(A&& a, B&& b, C&& c, E&& e, G&&... rest) const {
    return self().call_at(Location(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                          std::forward<E>(e), std::forward<G>(rest)...);
  }

 private:
  const D& self() const { return static_cast<const D&>(*this); }
};

template <class D, class Args>
class StatedCalls;
template <class D, class... A>
class StatedCalls<D, std::tuple<A...>> {
 public:
  auto operator()(const A&... args, Location l = Location::current()) const {
    return static_cast<const D&>(*this).call_at(l, args...);
  }
  template <class... Given>
  requires(!arguments_fit<std::tuple<A...>, Given...>::value &&
           !arguments_fit<std::tuple<A..., Location>, Given...>::value) auto
  operator()(Given&&...) const {
    explain_misfit<std::tuple<A...>, Given...>();
  }
};
template <class D, KnownSignature F>
class Calls<D, F> : public StatedCalls<D, typename args_of<F>::type> {};

}  // namespace internal
}  // namespace tessera
