// SPDX-License-Identifier: Apache-2.0
// Shapes and dtypes of a function's result, without running it.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>

namespace tessera {

namespace internal {
/// Descriptions of the arrays that a call returns; it is traced only.
std::vector<Array> traced_shapes(const CallInfo& info, Prototype* prototype, Location location);

template <class Statics, class F, class... A>
auto shapes_of_call(F f, const A&... given) {
  const FunctionBody<F, Statics> body(std::move(f));
  return body.template with_args<call_args_t<F, Statics, const A&...>>(
      [&](CallInfo& info, auto result_tag) {
        using R = typename decltype(result_tag)::type;
        Prototype prototype;
        const std::vector<Array> leaves = traced_shapes(info, &prototype, Location());
        return tree_unflatten(prototype.as<R>(), leaves);
      },
      given...);
}
}  // namespace internal

/// Returns the result that a function would return, with a shape_dtype_struct in place of each
/// array (jax.eval_shape): the function is traced, and nothing is computed or allocated.
/// @code
/// Params shapes = eval_shape(init, key);   // of a model that no device could hold
/// @endcode
/// @param f  The function, as for `jit`.
/// @param given  Its arguments: arrays, shape_dtype_structs or trees of these.
/// @throws Errors of the function's operations, such as ShapeError.
template <class F, class... A>
auto eval_shape(F f, const A&... given) {
  return internal::shapes_of_call<StaticArgnums<>>(std::move(f), given...);
}
/// The same with static parameters: `eval_shape(f, static_argnums<1>, x, 3)`.
template <class F, int... I, class... A>
auto eval_shape(F f, StaticArgnums<I...>, const A&... given) {
  return internal::shapes_of_call<StaticArgnums<I...>>(std::move(f), given...);
}

}  // namespace tessera
