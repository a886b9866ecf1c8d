// SPDX-License-Identifier: Apache-2.0
// Derivatives of functions of arrays.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/custom_derivative.h>
#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/detail/held_arguments.h>
#include <tessera/ops/creation.h>
#include <tessera/tree.h>

/// @file
/// Derivatives by transformation of the program that a function traces to: exact up to rounding, in
/// forward and reverse mode, of any order (jax.grad, jax.jvp, jax.vjp, jax.linearize).
///
/// They compose with each other and with `jit`, `scan`, `cond` and shardings in any order. Tangents
/// and gradients are trees of the C++ type of what they belong to. Arrays of integers and
/// predicates have no derivative: their tangents are zeros of type pred, which are ignored where
/// they are given. Of complex numbers `jvp` gives dz, and `vjp` and `grad` what JAX gives: a
/// gradient is to be conjugated before it is subtracted. At kinks the derivative is JAX's: 0 for
/// `abs` at 0, one half each for `maximum` of equals.
///
/// All of these throw NotImplementedError, which names the operation and its line, if a derivative
/// is asked of an operation that has none.

namespace tessera {

/// Says that the function also returns values that are not differentiated: see `has_aux`.
struct HasAux {};
/// `grad(f, has_aux)`: `f` returns a pair of the scalar to differentiate and other values, which
/// are returned along with the gradient.
inline constexpr HasAux has_aux{};

/// Options of `grad` and `value_and_grad`.
struct GradOptions {
  /// The function is holomorphic: arguments and result are complex, and the gradient is the complex
  /// derivative.
  bool holomorphic = false;
  /// Arguments may hold integers; their gradients are zeros of type pred.
  bool allow_int = false;
};

namespace internal {

/// An argument of a function, as opposed to `has_aux`.
template <class A>
concept DerivedBy = !std::is_same_v<A, HasAux>;

/// A linear function that a transformation made: the tangents of a function's results by those of
/// its arguments, at one point. Copies share it.
class LinearFunction {
 public:
  struct State;
  explicit LinearFunction(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  /// One tangent per leaf of the arguments; gives one per leaf of the results.
  std::vector<Array> apply(const std::vector<Array>& tangents, Location location) const;
  /// One cotangent per leaf of the results; gives one per leaf of the arguments.
  std::vector<Array> transpose(const std::vector<Array>& cotangents, Location location) const;

 private:
  std::shared_ptr<const State> state_;
};

struct GradRequest {
  const char* api = "grad";
  std::vector<int> positions;  ///< of the arguments to differentiate by
  bool aux = false;
  GradOptions options;
};
struct GradResult {
  std::vector<Array> value;                   ///< leaves of the function's result
  std::vector<std::vector<Array>> gradients;  ///< leaves, per position
};
GradResult grad_core(const CallInfo& info, Prototype* prototype, const GradRequest& request,
                     Location location);

struct JvpResult {
  std::vector<Array> value, tangent;
};
JvpResult jvp_core(const CallInfo& info, Prototype* prototype, const std::vector<Array>& tangents,
                   Location location);

struct Linearized {
  std::vector<Array> value;
  LinearFunction linear;
};
Linearized linearize_core(const CallInfo& info, Prototype* prototype, const char* api,
                          Location location);

/// The function that is linear in its arguments, of which only the types are looked at.
LinearFunction linear_function_core(const CallInfo& info, Prototype* prototype, Location location);

/// The tangents of a result as a tree of its type.
template <class R>
R tangent_tree(const Prototype& prototype, const std::vector<Array>& leaves) {
  return tree_unflatten(prototype.as<R>(), leaves);
}

/// One tree alone, several as a tuple.
template <class... T>
auto one_or_tuple(std::tuple<T...> all) {
  if constexpr (sizeof...(T) == 1) {
    return std::get<0>(std::move(all));
  } else {
    return all;
  }
}

template <class F, class Indices, bool with_value, bool aux>
class GradFunction;
template <class F, int... I, bool with_value, bool aux>
class GradFunction<F, std::integer_sequence<int, I...>, with_value, aux>
    : public Calls<GradFunction<F, std::integer_sequence<int, I...>, with_value, aux>, F> {
 public:
  using wrapped_function = F;

  GradFunction(F f, GradOptions options, Location location)
      : body_(std::move(f)), options_(options), location_(location) {}

  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    static_assert(((I >= 0 && I < int(sizeof...(Given))) && ...),
                  "tessera: grad differentiates by an argument that the function doesn't take");
    using Args = call_args_t<F, StaticArgnums<>, Given...>;
    using Held = held_args<Args>;
    if (!location.known()) location = location_;
    const Held held{as_tree(given)...};
    return std::apply(
        [&](const auto&... args) {
          return body_.template with_args<Args>(
              [&](CallInfo& info, auto tag) { return finish(info, tag, held, location); }, args...);
        },
        held);
  }

 private:
  template <class R, class Held>
  auto finish(CallInfo& info, std::type_identity<R>, const Held& held, Location location) const {
    if constexpr (aux) {
      static_assert(is_pair_of_array<R>(),
                    "tessera: with has_aux the function must return a pair (or tuple of two) of an "
                    "Array and other values");
    } else {
      static_assert(std::is_same_v<R, Array>,
                    "tessera: the function that grad differentiates must return an Array; use "
                    "has_aux if it returns other values, too, or vjp");
    }
    Prototype prototype;
    const GradRequest request{with_value ? "value_and_grad" : "grad", {I...}, aux, options_};
    GradResult out = grad_core(info, &prototype, request, location);
    std::size_t next = 0;
    const auto gradient = [&](const auto& argument) {
      return tree_unflatten(argument, out.gradients[next++]);
    };
    // In braces, so that they are made in order.
    auto gradients = one_or_tuple(std::tuple<std::tuple_element_t<std::size_t(I), Held>...>{
        gradient(std::get<std::size_t(I)>(held))...});
    if constexpr (with_value) {
      return std::pair(tree_unflatten(prototype.as<R>(), out.value), std::move(gradients));
    } else if constexpr (aux) {
      R value = tree_unflatten(prototype.as<R>(), out.value);
      return std::pair(std::move(gradients), std::get<1>(std::move(value)));
    } else {
      return gradients;
    }
  }

  template <class R>
  static constexpr bool is_pair_of_array() {
    if constexpr (requires { std::tuple_size<R>::value; }) {
      if constexpr (std::tuple_size_v<R> == 2) {
        return std::is_same_v<std::tuple_element_t<0, R>, Array>;
      }
    }
    return false;
  }

  FunctionBody<F, StaticArgnums<>> body_;
  GradOptions options_;
  Location location_;
};

template <int... I>
using positions = std::conditional_t<sizeof...(I) == 0, std::integer_sequence<int, 0>,
                                     std::integer_sequence<int, I...>>;

}  // namespace internal

/// The gradient of a scalar function (jax.grad): `grad(f)` by the first argument, `grad<0, 2>(f)`
/// by those at these positions, as a tuple.
/// @code
/// auto loss = [](Params p, Array x, Array y) { return mean(square(predict(p, x) - y)); };
/// Params g = grad(loss)(params, x, y);                  // a struct of gradients
/// auto [gx, gy] = grad<1, 2>(loss)(params, x, y);
/// Array second = grad(grad([](Array v) { return sin(v); }))(1.0f);   // -sin(1)
/// @endcode
/// @tparam I  Positions of arguments, from 0.
/// @param f  Takes trees of Array; returns a floating-point scalar (or, if holomorphic, a complex
///   one).
/// @return A function of the arguments of `f`. Gradients have the type, shapes and dtypes of the
///   arguments that they belong to.
///
/// Calls throw:
/// @throws ShapeError if the result is no scalar.
/// @throws DTypeError if the result, or an argument to differentiate by, is of another type.
/// @throws NotImplementedError if an operation has no derivative.
template <int... I, class F>
auto grad(F f, GradOptions options = {}, Location location = Location::current()) {
  return internal::GradFunction<std::decay_t<F>, internal::positions<I...>, false, false>(
      std::move(f), options, location);
}
/// The same for a function that returns a pair of the scalar and other values; the result is a pair
/// of the gradient and those.
template <int... I, class F>
auto grad(F f, HasAux, GradOptions options = {}, Location location = Location::current()) {
  return internal::GradFunction<std::decay_t<F>, internal::positions<I...>, false, true>(
      std::move(f), options, location);
}

/// Value and gradient of a scalar function at once (jax.value_and_grad), as a pair.
/// @code
/// auto [loss, g] = value_and_grad(f)(params, batch);
/// @endcode
/// Otherwise as `grad`.
template <int... I, class F>
auto value_and_grad(F f, GradOptions options = {}, Location location = Location::current()) {
  return internal::GradFunction<std::decay_t<F>, internal::positions<I...>, true, false>(
      std::move(f), options, location);
}
/// The same for a function that returns a pair of the scalar and other values: the value is that
/// pair.
template <int... I, class F>
auto value_and_grad(F f, HasAux, GradOptions options = {},
                    Location location = Location::current()) {
  return internal::GradFunction<std::decay_t<F>, internal::positions<I...>, true, true>(
      std::move(f), options, location);
}

/// The value of a function and its derivative in a direction (jax.jvp).
/// @code
/// auto [y, dy] = jvp([](Array x) { return sin(x); }, std::tuple(x), std::tuple(dx));
/// @endcode
/// @param f  A function of trees of Array.
/// @param primals  A tuple of its arguments.
/// @param tangents  A tuple of trees like them.
/// @return A pair of the result and its tangent, trees of one type.
/// @throws TypeError if a tangent's tree, shape or dtype isn't that of its primal.
template <class F, class... A, class... T>
auto jvp(F f, const std::tuple<A...>& primals, const std::tuple<T...>& tangents,
         Location location = Location::current()) {
  static_assert(sizeof...(A) == sizeof...(T), "tessera: jvp takes a tangent for each argument");
  const internal::FunctionBody<F, StaticArgnums<>> body(std::move(f));
  const std::vector<Array> directions =
      std::apply([](const auto&... t) { return internal::leaves_in_order(t...); }, tangents);
  return std::apply(
      [&](const auto&... a) {
        using Args = internal::call_args_t<F, StaticArgnums<>, const A&...>;
        return body.template with_args<Args>(
            [&](internal::CallInfo& info, auto tag) {
              using R = typename decltype(tag)::type;
              internal::Prototype prototype;
              internal::JvpResult out = internal::jvp_core(info, &prototype, directions, location);
              return std::pair(tree_unflatten(prototype.as<R>(), out.value),
                               internal::tangent_tree<R>(prototype, out.tangent));
            },
            a...);
      },
      primals);
}

namespace internal {
/// Calls a function that returns a pair, the second of which derivatives take for constant.
template <class F>
struct WithAux {
  F f;
  template <class... A>
  auto operator()(const A&... args) const {
    auto out = std::invoke(f, args...);
    static_assert(is_pair_like<decltype(out)>(),
                  "tessera: with has_aux the function must return a pair (or tuple of two) of a "
                  "result and other values");
    return std::pair(std::get<0>(out), stop_gradient(std::get<1>(out)));
  }
};
}  // namespace internal

/// `jvp` of a function that returns a pair of the result and other values, which are not
/// differentiated.
/// @code
/// auto [y, dy, other] = jvp(f, has_aux, std::tuple(x), std::tuple(dx));
/// @endcode
/// @return A tuple of the result, its tangent, and the other values.
template <class F, class... A, class... T>
auto jvp(F f, HasAux, const std::tuple<A...>& primals, const std::tuple<T...>& tangents,
         Location location = Location::current()) {
  auto [value, tangent] = jvp(internal::WithAux<F>{std::move(f)}, primals, tangents, location);
  return std::tuple(std::move(value.first), std::move(tangent.first), std::move(value.second));
}

/// The function that `vjp` returns: from cotangents of the result to those of the arguments.
/// @tparam R  The type of the function's result.
/// @tparam Held  A tuple of the types of its arguments.
template <class R, class Held>
class VjpFunction {
 public:
  /// For internal use; see `vjp`.
  VjpFunction(internal::LinearFunction linear, Held held)
      : linear_(std::move(linear)), held_(std::move(held)) {}
  /// Cotangents of the arguments: a tree like the argument if there is one, else a tuple of such.
  /// @throws TypeError if the cotangent's tree, shapes or dtypes aren't those of the result.
  /// @throws ShardingTypeError if, in explicit mode, its shardings aren't.
  auto operator()(const R& cotangent, Location location = Location::current()) const {
    const std::vector<Array> leaves = linear_.transpose(tree_leaves(cotangent), location);
    return internal::one_or_tuple(internal::trees_in_order(held_, leaves));
  }

 private:
  internal::LinearFunction linear_;
  Held held_;
};

/// The function that `linearize` returns: the derivative at one point, in any direction.
/// @tparam R  The type of the function's result.
/// @tparam Held  A tuple of the types of its arguments.
template <class R, class Held>
class JvpFunction {
 public:
  /// For internal use; see `linearize`.
  JvpFunction(internal::LinearFunction linear, R result)
      : linear_(std::move(linear)), result_(std::move(result)) {}
  /// The tangent of the result, of a tangent for each argument.
  /// @throws TypeError if a tangent's shape or dtype isn't that of its argument.
  /// @throws ShardingTypeError if, in explicit mode, its sharding isn't.
  template <class A>
  R operator()(const A& tangent, Location location = Location::current()) const {
    return at(location, tangent);
  }
  /// The same of two arguments.
  template <class A, class B>
  R operator()(const A& first, const B& second, Location location = Location::current()) const {
    return at(location, first, second);
  }
  /// The same of three arguments.
  template <class A, class B, class C>
  R operator()(const A& first, const B& second, const C& third,
               Location location = Location::current()) const {
    return at(location, first, second, third);
  }
  /// The same of more; messages name no line.
  template <class A, class B, class C, class D, class... T>
  R operator()(const A& first, const B& second, const C& third, const D& fourth,
               const T&... rest) const {
    return at(Location(), first, second, third, fourth, rest...);
  }

 private:
  template <class... T>
  R at(Location location, const T&... tangents) const {
    static_assert(sizeof...(T) == std::tuple_size_v<Held>,
                  "tessera: the linearized function takes a tangent for each argument");
    const std::vector<Array> all = internal::leaves_in_order(tangents...);
    return tree_unflatten(result_, linear_.apply(all, location));
  }

  internal::LinearFunction linear_;
  R result_;
};

namespace internal {
/// Then(info's core result, prototype, held) of a linearised call.
template <class F, class Then, class... A>
auto linearized(const char* api, F f, Location location, Then then, const A&... args) {
  using Args = call_args_t<F, StaticArgnums<>, const A&...>;
  using Held = held_args<Args>;
  const FunctionBody<F, StaticArgnums<>> body(std::move(f));
  const Held held{args...};
  return body.template with_args<Args>(
      [&](CallInfo& info, auto tag) {
        using R = typename decltype(tag)::type;
        Prototype prototype;
        Linearized out = linearize_core(info, &prototype, api, location);
        return then(tree_unflatten(prototype.as<R>(), out.value), std::move(out.linear), held);
      },
      args...);
}

template <class F, class... A>
auto vjp_at(Location location, F f, const A&... args) {
  return linearized(
      "vjp", std::move(f), location,
      [](auto value, LinearFunction linear, const auto& held) {
        using R = decltype(value);
        using Held = std::decay_t<decltype(held)>;
        return std::pair(std::move(value), VjpFunction<R, Held>(std::move(linear), held));
      },
      args...);
}

template <class F, class... A>
auto vjp_with_aux_at(Location location, F f, const A&... args) {
  auto [value, pull] = vjp_at(location, WithAux<F>{std::move(f)}, args...);
  auto [result, other] = std::move(value);
  const auto zeros_of = [](const Array& x) {
    const bool has_cotangent = is_floating(x.dtype()) || is_complex(x.dtype());
    return has_cotangent ? zeros_like(x) : zeros(x.shape(), DType::pred);
  };
  const auto pull_result = [pull = std::move(pull), zeros = tree_map(zeros_of, other)](
                               const decltype(result)& cotangent,
                               Location at = Location::current()) {
    return pull({cotangent, zeros}, at);
  };
  return std::tuple(std::move(result), pull_result, std::move(other));
}

template <class F, class... A>
auto linearize_at(Location location, F f, const A&... args) {
  return linearized(
      "linearize", std::move(f), location,
      [](auto value, LinearFunction linear, const auto& held) {
        using R = decltype(value);
        using Held = std::decay_t<decltype(held)>;
        JvpFunction<R, Held> push(std::move(linear), value);
        return std::pair(std::move(value), std::move(push));
      },
      args...);
}

template <class F, class... A>
auto linear_transpose_at(Location location, F f, const A&... args) {
  using Args = call_args_t<F, StaticArgnums<>, const A&...>;
  using Held = held_args<Args>;
  const FunctionBody<F, StaticArgnums<>> body(std::move(f));
  const Held held{args...};
  return body.template with_args<Args>(
      [&](CallInfo& info, auto tag) {
        using R = typename decltype(tag)::type;
        Prototype prototype;
        return VjpFunction<R, Held>(linear_function_core(info, &prototype, location), held);
      },
      args...);
}
}  // namespace internal

/// The value of a function, and the function from cotangents of its result to cotangents of its
/// arguments (jax.vjp). What the derivative needs is computed once, and kept by the function.
/// @code
/// auto [y, pull] = vjp([](Array a, Array b) { return matmul(a, b); }, a, b);
/// auto [ga, gb] = pull(ones_like(y));
/// @endcode
/// @return A pair of the result and a VjpFunction.
template <class F, internal::DerivedBy A>
auto vjp(F f, const A& a, Location location = Location::current()) {
  return internal::vjp_at(location, std::move(f), a);
}
/// The same of two arguments.
template <class F, internal::DerivedBy A, class B>
auto vjp(F f, const A& a, const B& b, Location location = Location::current()) {
  return internal::vjp_at(location, std::move(f), a, b);
}
/// The same of three arguments.
template <class F, internal::DerivedBy A, class B, class C>
auto vjp(F f, const A& a, const B& b, const C& c, Location location = Location::current()) {
  return internal::vjp_at(location, std::move(f), a, b, c);
}
/// The same of four arguments.
template <class F, internal::DerivedBy A, class B, class C, class D>
auto vjp(F f, const A& a, const B& b, const C& c, const D& d,
         Location location = Location::current()) {
  return internal::vjp_at(location, std::move(f), a, b, c, d);
}
/// The same of more; messages name the lines of operations only.
template <class F, internal::DerivedBy A, class B, class C, class D, class E, class... More>
auto vjp(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const More&... more) {
  return internal::vjp_at(Location(), std::move(f), a, b, c, d, e, more...);
}

/// `vjp` of a function that returns a pair of the result and other values, which are not
/// differentiated.
/// @code
/// auto [y, pull, other] = vjp(f, has_aux, x);
/// @endcode
/// @return A tuple of the result, a function from its cotangents to those of the arguments, and the
///   other values.
template <class F, class A>
auto vjp(F f, HasAux, const A& a, Location location = Location::current()) {
  return internal::vjp_with_aux_at(location, std::move(f), a);
}
/// The same of two arguments.
template <class F, class A, class B>
auto vjp(F f, HasAux, const A& a, const B& b, Location location = Location::current()) {
  return internal::vjp_with_aux_at(location, std::move(f), a, b);
}
/// The same of more; messages name the lines of operations only.
template <class F, class A, class B, class C, class... More>
auto vjp(F f, HasAux, const A& a, const B& b, const C& c, const More&... more) {
  return internal::vjp_with_aux_at(Location(), std::move(f), a, b, c, more...);
}

/// The value of a function, and its derivative at this point as a linear function of tangents
/// (jax.linearize).
/// @code
/// auto [y, push] = linearize(f, x);
/// Array dy = push(dx), dz = push(dw);   // without computing f again
/// @endcode
/// @return A pair of the result and a JvpFunction.
template <class F, class A>
auto linearize(F f, const A& a, Location location = Location::current()) {
  return internal::linearize_at(location, std::move(f), a);
}
/// The same of two arguments.
template <class F, class A, class B>
auto linearize(F f, const A& a, const B& b, Location location = Location::current()) {
  return internal::linearize_at(location, std::move(f), a, b);
}
/// The same of three arguments.
template <class F, class A, class B, class C>
auto linearize(F f, const A& a, const B& b, const C& c, Location location = Location::current()) {
  return internal::linearize_at(location, std::move(f), a, b, c);
}
/// The same of more; messages name the lines of operations only.
template <class F, class A, class B, class C, class D, class... More>
auto linearize(F f, const A& a, const B& b, const C& c, const D& d, const More&... more) {
  return internal::linearize_at(Location(), std::move(f), a, b, c, d, more...);
}

/// The transpose of a linear function (jax.linear_transpose), given arguments of the types that it
/// takes; their values don't matter, so they may be shape_dtype_structs.
/// @code
/// auto back = linear_transpose([&](Array v) { return matmul(w, v); }, x);
/// Array gx = back(gy);   // matmul(transpose(w), gy)
/// @endcode
/// @return A VjpFunction, of a tree like the result.
/// @throws ValueError if the function isn't linear.
template <class F, class A>
auto linear_transpose(F f, const A& a, Location location = Location::current()) {
  return internal::linear_transpose_at(location, std::move(f), a);
}
/// The same of two arguments.
template <class F, class A, class B>
auto linear_transpose(F f, const A& a, const B& b, Location location = Location::current()) {
  return internal::linear_transpose_at(location, std::move(f), a, b);
}
/// The same of three arguments.
template <class F, class A, class B, class C>
auto linear_transpose(F f, const A& a, const B& b, const C& c,
                      Location location = Location::current()) {
  return internal::linear_transpose_at(location, std::move(f), a, b, c);
}
/// The same of more; messages name the lines of operations only.
template <class F, class A, class B, class C, class D, class... More>
auto linear_transpose(F f, const A& a, const B& b, const C& c, const D& d, const More&... more) {
  return internal::linear_transpose_at(Location(), std::move(f), a, b, c, d, more...);
}

}  // namespace tessera
