// SPDX-License-Identifier: Apache-2.0
// Functions on batches, and Jacobians.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/collectives.h>
#include <tessera/derivatives.h>
#include <tessera/detail/axes_tree.h>
#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `vmap`.
struct VmapOptions {
  /// The dimension of each argument along which it holds the batch (nullptr: every entry takes the
  /// whole argument), as a prefix of the arguments' tree. Negative ones count from the end.
  AxesTree in_axes = 0;
  /// The dimension of each result along which the entries' results are stacked (nullptr: the result
  /// must be the same for all entries), as a prefix of the result's tree.
  AxesTree out_axes = 0;
  /// Name by which collectives inside mean the entries of the batch, as `psum(x, "batch")` their
  /// sum (see collectives.h). Empty: none.
  std::string axis_name = "";
  /// Entries of the batch, if no argument holds it.
  std::optional<std::int64_t> axis_size{};
  /// Axes of the mesh over which the batch lies: constraints (with_sharding_constraint) and
  /// shard_maps inside get the batch dimension sharded over them.
  AxisNames spmd_axis_name = std::vector<std::string>{};
  /// Name of the function in messages and in the text of programs.
  std::string name = "vmap";
};

namespace internal {

std::vector<Array> vmap_core(const CallInfo& info, Prototype* prototype, const VmapOptions& options,
                             Location location);

template <class F>
using VmapFunction = TransformedFunction<F, VmapOptions, &vmap_core>;

std::vector<std::int64_t> joined_shape(const Array& a, const Array& b);
/// One-hot arrays like `x`, stacked along dim 0.
Array standard_basis(const Array& x, Location location);

template <class F, bool forward>
class JacobianFunction : public Calls<JacobianFunction<F, forward>, F> {
 public:
  using wrapped_function = F;
  JacobianFunction(F f, Location location)
      : f_(std::make_shared<F>(std::move(f))), location_(location) {}

  template <class First, class... Rest>
  Array call_at(Location location, First&& first, Rest&&... rest) const {
    if (!location.known()) location = location_;
    const Array x = as_tree(first);
    const auto of_first = [&](const Array& v) { return (*f_)(v, rest...); };
    static_assert(std::is_same_v<std::decay_t<decltype(of_first(x))>, Array>,
                  "tessera: jacfwd, jacrev and hessian take functions that return an Array");
    if constexpr (forward) {
      const auto [y, push] = linearize([&](Array v) { return of_first(v); }, x);
      const auto columns = vmap([push = push](Array t) { return push(t); },
                                VmapOptions{.in_axes = 0, .out_axes = -1}, location);
      return reshape(columns(standard_basis(x, location)), joined_shape(y, x));
    } else {
      const auto [y, pull] = vjp([&](Array v) { return of_first(v); }, x);
      const auto rows = vmap([pull = pull](Array t) { return pull(t); }, VmapOptions{}, location);
      return reshape(rows(standard_basis(y, location)), joined_shape(y, x));
    }
  }

 private:
  template <class G>
  static auto vmap(G g, VmapOptions options, Location location) {
    return VmapFunction<G>(std::move(g), std::move(options), location);
  }

  std::shared_ptr<F> f_;
  Location location_;
};

}  // namespace internal

/// A function that does for all entries of a batch what `f` does for one (jax.vmap), in whole-array
/// operations rather than a loop.
/// @code
/// auto each = vmap([](Array w, Array x) { return dot(w, x); },
///                  {.in_axes = axes_tree(nullptr, 0)});
/// Array ys = each(w, xs);                                  // w with each row of xs
/// Params per_example = vmap(grad(loss), {.in_axes = axes_tree(nullptr, 0)})(params, batch);
/// @endcode
/// @param f  Takes and returns trees of Array; sees arguments without the batch dimension. Arrays
///   that it captures are the same for all entries.
/// @return A function of the same arguments with batch dimensions.
///
/// Calls throw:
/// @throws ValueError if axes don't fit the arguments' or results' trees or ranks, sizes of the
///   batch differ, nothing is batched, or a result that depends on the batch has out_axes nullptr.
/// @throws NotImplementedError, naming the operation and its line, for one that has no batched
/// form.
template <class F>
auto vmap(F f, VmapOptions options = {}, Location location = Location::current()) {
  return internal::VmapFunction<std::decay_t<F>>(std::move(f), std::move(options), location);
}

/// The Jacobian by the first argument, column by column in forward mode (jax.jacfwd): for many
/// results of few arguments.
/// @code
/// Array j = jacfwd([](Array x) { return matmul(a, x); })(x);   // a
/// @endcode
/// @param f  Takes an Array first and returns an Array.
/// @return A function of the same arguments; its result has the result's shape followed by the
///   argument's.
template <class F>
auto jacfwd(F f, Location location = Location::current()) {
  return internal::JacobianFunction<std::decay_t<F>, true>(std::move(f), location);
}
/// The same, row by row in reverse mode (jax.jacrev): for few results of many arguments.
template <class F>
auto jacrev(F f, Location location = Location::current()) {
  return internal::JacobianFunction<std::decay_t<F>, false>(std::move(f), location);
}
/// The second derivatives of a function by its first argument (jax.hessian): of shape
/// [result, argument, argument].
template <class F>
auto hessian(F f, Location location = Location::current()) {
  return jacfwd(jacrev(std::move(f), location), location);
}

}  // namespace tessera
