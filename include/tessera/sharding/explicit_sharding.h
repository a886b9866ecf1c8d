// SPDX-License-Identifier: Apache-2.0
// Explicit mode: shardings as part of the types of arrays.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/placement.h>
#include <tessera/sharding.h>
#include <tessera/sharding/out_sharding.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

namespace tessera {

/// The type of an array, as `type_of` returns it.
struct ArrayType {
  std::vector<std::int64_t> shape;  ///< global shape; in code per device that of the shard
  DType dtype = DType::f32;         ///< dtype
  bool weak_type = false;           ///< a plain number
  /// The mesh and the Explicit axes that split each dimension; not `valid()` if the type has no
  /// sharding, as where all axes are Auto.
  Sharding sharding;
  std::vector<std::string> varying;  ///< in code per device, axes over which the values may vary
  /// Returns for example `f32[8@x,4]`, and after it `{V:x,U:y,R:z}` for axes over which the value
  /// varies, is unreduced and reduced; `U_max:y` and `U_min:y` for parts of maxima and minima.
  std::string to_string() const;
};

/// Returns the type of an array (jax.typeof): in explicit mode with its sharding, which is known
/// while a function is traced.
///
/// On a mesh with axes of type `AxisType::Explicit` each operation has a rule that says how its
/// result is sharded, from how its operands are. Where that is ambiguous the operation throws a
/// ShardingTypeError, which names what would decide it.
/// @code
/// const Mesh mesh = make_mesh({2, 4}, {"x", "y"}, {AxisType::Explicit, AxisType::Explicit});
/// const Array a = device_put(ones({8, 16}), NamedSharding(mesh, P("x", "y")));
/// auto f = jit([](Array a) {
///   std::cout << type_of(transpose(a)).to_string();  // f32[16@y,8@x]
///   return sin(a);
/// });
/// @endcode
ArrayType type_of(const Array& x, Location location = Location::current());

/// Computes an array whose sharding is given, whatever the rules say of the operations on the way:
/// the general form of the overloads below.
/// @code
/// Array y = with_out_sharding(P("x"), [&] { return dot_general(a, b, dims); });
/// @endcode
/// @param out  Sharding of the result. `unreduced` axes leave the sum over a dot's or a sum's split
///   dimensions for later: they must be just those that split the contracted dimensions of both
///   operands, or some of those that split the summed dimensions. So do those of kind
///   `UnreducedKind::max` and `min` with the maximum or minimum over split dimensions.
/// @param f  Makes the result.
/// @param location  The line named in messages.
/// @throws ShardingTypeError if `out` names an axis that isn't Explicit, or its unreduced axes
///   aren't those of the sum, maximum or minimum.
/// @throws ShardingError if it has more entries than the result has dimensions, or there is no
/// mesh.
Array with_out_sharding(const OutSharding& out, const std::function<Array()>& f,
                        Location location = Location::current());

/// `matmul` with the sharding of the result.
/// @throws ShardingTypeError as for with_out_sharding; so all functions here.
Array matmul(Operand a, Operand b, const OutSharding& out);
/// `dot` with the sharding of the result.
Array dot(Operand a, Operand b, const OutSharding& out);
/// `dot_general` with the sharding of the result.
Array dot_general(Operand lhs, Operand rhs, const DotDims& dims, const OutSharding& out);
/// `tensordot` with the sharding of the result.
Array tensordot(Operand a, Operand b, std::int64_t axes, const OutSharding& out);
/// `einsum` with the sharding of the result.
Array einsum(const std::string& spec, const std::vector<Array>& arrays, const OutSharding& out,
             Location location = Location::current());
/// `einsum` with the sharding of the result.
Array einsum(const std::string& spec, Operand a, Operand b, const OutSharding& out);
/// `sum` with the sharding of the result.
Array sum(Operand x, Axes axes, const OutSharding& out);
/// `max` with the sharding of the result, whose unreduced axes are of kind `UnreducedKind::max`.
Array max(Operand x, Axes axes, const OutSharding& out);
/// `min` with the sharding of the result, whose unreduced axes are of kind `UnreducedKind::min`.
Array min(Operand x, Axes axes, const OutSharding& out);
/// `reshape` with the sharding of the result.
Array reshape(Operand x, std::vector<std::int64_t> shape, const OutSharding& out);
/// `ravel` with the sharding of the result.
Array ravel(Operand x, const OutSharding& out);
/// `broadcast_to` with the sharding of the result.
Array broadcast_to(Operand x, std::vector<std::int64_t> shape, const OutSharding& out);
/// `repeat` with the sharding of the result.
Array repeat(Operand x, std::int64_t count, std::optional<std::int64_t> axis,
             const OutSharding& out);
/// `take` with the sharding of the result.
Array take(Operand x, Operand indices, std::optional<std::int64_t> axis, const OutSharding& out);
/// `one_hot` with the sharding of the result.
Array one_hot(Operand x, std::int64_t num_classes, DType dtype, const OutSharding& out);
/// `zeros` with a sharding.
Array zeros(std::vector<std::int64_t> shape, DType dtype, const OutSharding& out,
            Location location = Location::current());
/// `ones` with a sharding.
Array ones(std::vector<std::int64_t> shape, DType dtype, const OutSharding& out,
           Location location = Location::current());
/// `full` with a sharding.
Array full(std::vector<std::int64_t> shape, Operand value, std::optional<DType> dtype,
           const OutSharding& out);
/// `arange` with a sharding.
Array arange(double stop, std::optional<DType> dtype, const OutSharding& out,
             Location location = Location::current());
/// `iota` with a sharding.
Array iota(DType dtype, std::vector<std::int64_t> shape, std::int64_t dim, const OutSharding& out,
           Location location = Location::current());

namespace random {
/// `uniform` with a sharding.
Array uniform(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out);
/// `normal` with a sharding.
Array normal(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out);
/// `bits` with a sharding.
Array bits(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out);
}  // namespace random

namespace internal {
std::vector<Array> reshard_leaves(const std::vector<Array>& leaves,
                                  const std::function<void(TreeVisitor&)>& walk,
                                  const ShardingTree& target, Location location);
}  // namespace internal

/// Moves arrays to another sharding over Explicit axes (jax.sharding.reshard): the only operation
/// that changes the sharding of a type and nothing else.
///
/// A spec without the unreduced axes that a value has adds up its parts, or takes the maximum or
/// minimum of them. Where `target` has unreduced axes that the value lacks, one part gets the value
/// and the others zeros; those of maxima and minima can't be more than the value has, nor can
/// `target` be of another kind. `reduced` axes change the type alone: the gradient of the result is
/// a partial sum over them.
/// @param value  A tree of arrays; eagerly or in a traced function.
/// @param target  A prefix of that tree; specs refer to the mesh of the array, or that in scope.
/// @param location  The line named in messages.
/// @throws ShardingTypeError if a spec names an axis that isn't Explicit, or its unreduced axes are
///   of another kind than the array's, or more of a maximum or minimum.
/// @throws ShardingError if it has more entries than the array has dimensions.
/// @throws IndivisibleError if a dimension can't be split evenly.
/// @throws ValueError if `target` is no prefix, or null or UNSPECIFIED for an array.
template <TreeLike T>
T reshard(const T& value, const ShardingTree& target, Location location = Location::current()) {
  return tree_unflatten(value, internal::reshard_leaves(tree_leaves(value), internal::walker(value),
                                                        target, location));
}
/// Moves all arrays of a tree to one sharding.
template <TreeLike T>
T reshard(const T& value, const NamedSharding& target, Location location = Location::current()) {
  return reshard(value, ShardingTree(target), location);
}

/// Options of `auto_axes`.
struct AutoAxesOptions {
  /// Sharding of the results, as a prefix of their tree. Required where the mesh has Explicit axes.
  ShardingTree out_sharding = UNSPECIFIED;
  /// The axes that become Auto; empty: all.
  std::vector<std::string> axes{};
  /// Name of the function in messages and in the text of programs.
  std::string name = "auto_axes";
};
/// Options of `explicit_axes`.
struct ExplicitAxesOptions {
  /// Sharding of the arguments, as a prefix of their tree. Required.
  ShardingTree in_sharding = UNSPECIFIED;
  /// The axes that become Explicit; empty: all.
  std::vector<std::string> axes{};
  /// Name of the function in messages and in the text of programs.
  std::string name = "explicit_axes";
};

namespace internal {

std::vector<Array> auto_axes_core(const CallInfo& info, Prototype* prototype,
                                  const AutoAxesOptions& options, Location location);
std::vector<Array> explicit_axes_core(const CallInfo& info, Prototype* prototype,
                                      const ExplicitAxesOptions& options, Location location);

template <class F>
using AutoAxesFunction = TransformedFunction<F, AutoAxesOptions, &auto_axes_core>;
template <class F>
using ExplicitAxesFunction = TransformedFunction<F, ExplicitAxesOptions, &explicit_axes_core>;

}  // namespace internal

/// A function that computes as `f` does, with Explicit axes treated as Auto inside: types have no
/// shardings there, propagation decides, and the results have those that are given
/// (jax.sharding.auto_axes).
/// @code
/// auto rolled = auto_axes([](Array x) { return roll(x, 1); }, {.out_sharding = P("x")});
/// @endcode
/// Calls throw:
/// @throws TypeError if out_sharding isn't given and the arguments are on a mesh with Explicit
/// axes.
/// @throws ShardingTypeError if it names an axis that isn't Explicit.
template <class F>
auto auto_axes(F f, AutoAxesOptions options = {}, Location location = Location::current()) {
  return internal::AutoAxesFunction<std::decay_t<F>>(std::move(f), std::move(options), location);
}

/// A function that computes as `f` does, with Auto axes of the mesh in scope made Explicit inside:
/// the arguments are resharded, and types have shardings there (jax.sharding.explicit_axes). Those
/// of the results end with it.
/// @code
/// auto g = explicit_axes([](Array x) { return x * 2; }, {.in_sharding = P("x")});
/// @endcode
/// Calls throw:
/// @throws TypeError if in_sharding isn't given.
/// @throws ValueError if no mesh is in scope.
template <class F>
auto explicit_axes(F f, ExplicitAxesOptions options = {}, Location location = Location::current()) {
  return internal::ExplicitAxesFunction<std::decay_t<F>>(std::move(f), std::move(options),
                                                         location);
}

}  // namespace tessera
