// SPDX-License-Identifier: Apache-2.0
// Per-device code within programs on global arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/collectives.h>
#include <tessera/detail/axes_tree.h>
#include <tessera/detail/function_body.h>
#include <tessera/mesh.h>
#include <tessera/sharding/sharding_tree.h>

namespace tessera {

/// Options of `shard_map`: how arguments are split and results joined, and what is checked.
struct ShardMapOptions {
  /// The mesh whose devices run the function. By default that of an enclosing shard_map, or the
  /// mesh in scope; if there is one, a mesh given here must equal it. An AbstractMesh refers to the
  /// devices of the arguments.
  std::optional<Mesh> mesh{};
  /// Specs of the arguments: one for all, or `tree(...)` with one per argument, static ones left
  /// out; each is a prefix of the argument's tree. A dimension is split over the axes of its entry,
  /// and each device gets its part; along axes that a spec doesn't name all devices get the same.
  /// nullptr passes an argument on unchanged. On a mesh with Explicit axes the default are the
  /// specs in the arguments' types, which specs given here must equal.
  ShardingTree in_specs{};
  /// Specs of the results: a prefix of the result's tree. Parts are concatenated over the axes of
  /// each dimension's entry. Leaving an axis out promises that the devices along it hold equal
  /// values.
  ShardingTree out_specs{};
  /// The axes over which the function is per device (manual); empty means all that aren't manual
  /// already. Over the other axes it is written for global arrays and partitioned automatically.
  std::vector<std::string> axis_names{};
  /// Check the promises of `out_specs`, from the axes over which each value varies.
  bool check_vma = true;
  /// Name of the function in messages and in the text of programs.
  std::string name{};
  /// Names of the arguments in messages, from the first on.
  std::vector<std::string> arg_names{};
};

namespace internal {

class ShardMapCore {
 public:
  ShardMapCore(ShardMapOptions options, Location location);
  /// The results' leaves; `prototype`: the result's tree.
  std::vector<Array> call(const CallInfo& info, Prototype* prototype, Location location) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The axes of the mesh that aren't in `axes`; ShardingError if the mesh lacks one of `axes`.
std::vector<std::string> other_axes(const Mesh& mesh, const std::vector<std::string>& axes,
                                    Location location);

}  // namespace internal

/// A function wrapped by `shard_map`: called like the function itself, with global arrays.
template <class F, class Statics>
class ShardMapFunction : public internal::Calls<ShardMapFunction<F, Statics>, F> {
 public:
  /// The wrapped function's type.
  using wrapped_function = F;

  /// For internal use; see `shard_map`.
  ShardMapFunction(F f, ShardMapOptions options, Location location)
      : body_(std::move(f)), core_(std::move(options), location) {}

  /// Calls the function; messages name `location`.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    return body_.call_with(core_, location, std::forward<Given>(given)...);
  }

 private:
  internal::FunctionBody<F, Statics> body_;
  internal::ShardMapCore core_;
};

/// Maps a function over the shards of arrays (jax.shard_map).
///
/// The function is written for one device: it gets the parts of the arguments that `in_specs` give
/// it, may communicate by the collectives of tessera/collectives.h, and returns the device's parts
/// of the results. An argument of shape [8, 16] with spec P("x") on an axis of size 4 arrives as
/// [2, 16]; a result of shape [2, 16] with that spec becomes [8, 16]. The function is traced at
/// each call, within `jit` as part of the program, otherwise as a program of its own. Arrays that
/// it captures are replicated.
///
/// Each value in it has a set of axes over which it *varies* between devices (`varying_axes`): an
/// argument varies over the axes of its spec, `axis_index` over its own axes, the result of an
/// operation over those of its operands; `psum` and others remove axes. `out_specs` may leave out
/// an axis only if the result doesn't vary over it. Values carried by loops or returned by branches
/// must vary over the same axes; `pcast` adds axes.
/// @code
/// Mesh mesh = make_mesh({{"x", 8}});
/// auto dot = shard_map([](Array a, Array b) { return psum(sum(a * b), "x"); },
///                      {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
/// Array s = jit(dot)(a, b);
/// @endcode
/// @param f  The function; exceptions it throws pass through unchanged.
/// @param options  Mesh, specs, manual axes.
/// @param location  The line named in messages where a call has none.
/// @throws ShardingError if a spec names an axis that isn't made manual here, or is longer than its
///   array's rank.
/// @throws IndivisibleError if an argument can't be split evenly.
/// @throws ValueError if there is no mesh or not the one in scope, an axis isn't one of the mesh's
///   or is already manual, specs aren't prefixes of their trees, or a result varies over an axis
///   that its spec leaves out.
/// @throws TypeError if `in_specs` or `out_specs` is missing or holds anything but specs.
/// @throws NotImplementedError for specs with unreduced axes.
template <class F>
auto shard_map(F f, ShardMapOptions options, Location location = Location::current()) {
  return ShardMapFunction<std::decay_t<F>, StaticArgnums<>>(std::move(f), std::move(options),
                                                            location);
}
/// The same with static parameters.
template <class F, int... I>
auto shard_map(F f, StaticArgnums<I...>, ShardMapOptions options,
               Location location = Location::current()) {
  return ShardMapFunction<std::decay_t<F>, StaticArgnums<I...>>(std::move(f), std::move(options),
                                                                location);
}

/// Options of `smap`.
struct SmapOptions {
  /// The dimension of each argument that is split (nullptr: none).
  AxesTree in_axes{};
  /// The dimension along which each result is concatenated (nullptr: the devices hold equal
  /// values).
  AxesTree out_axes{};
  /// The axis of the mesh in scope that is mapped over.
  std::string axis_name{};
  /// Name of the function in messages and in the text of programs.
  std::string name{};
};

namespace internal {
ShardMapOptions to_shard_map(const SmapOptions& options, Location location);
}  // namespace internal

/// `shard_map` over one axis of the mesh in scope, with dimensions in place of specs (jax.smap).
/// @code
/// auto f = smap([](Array x) { return psum(x, "x"); },
///               {.in_axes = 0, .out_axes = nullptr, .axis_name = "x"});
/// @endcode
/// @throws TypeError if an option is missing; otherwise as `shard_map`.
template <class F>
auto smap(F f, SmapOptions options, Location location = Location::current()) {
  return shard_map(std::move(f), internal::to_shard_map(options, location), location);
}

/// Functions with the signatures of jax.experimental.
namespace experimental {

/// Options of jax.experimental.shard_map.
struct ShardMapOptions {
  /// As tessera::ShardMapOptions::check_vma.
  bool check_rep = true;
  /// The axes over which the function isn't per device (`auto` in Python).
  std::vector<std::string> auto_axes{};
  /// Name of the function in messages and in the text of programs.
  std::string name{};
};

/// tessera::shard_map with positional arguments (jax.experimental.shard_map).
/// @throws ShardingError if `auto_axes` names an axis that the mesh lacks, or all of them;
///   otherwise as tessera::shard_map.
template <class F>
auto shard_map(F f, const Mesh& mesh, const ShardingTree& in_specs, const ShardingTree& out_specs,
               const ShardMapOptions& options = {}, Location location = Location::current()) {
  return tessera::shard_map(std::move(f),
                            {.mesh = mesh,
                             .in_specs = in_specs,
                             .out_specs = out_specs,
                             .axis_names = internal::other_axes(mesh, options.auto_axes, location),
                             .check_vma = options.check_rep,
                             .name = options.name},
                            location);
}

}  // namespace experimental
}  // namespace tessera
