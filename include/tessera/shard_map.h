// SPDX-License-Identifier: Apache-2.0
// Per-device code inside of programs on global arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/collectives.h>
#include <tessera/function_body.h>
#include <tessera/mesh.h>
#include <tessera/sharding_tree.h>

namespace tessera {

/// How shard_map cuts arguments, joins results, and what it checks.
struct ShardMapOptions {
  /// Its devices run the function. Not given: the mesh in scope, or within another shard_map that
  /// one's. One that is given must be the one in scope, if there is one. An AbstractMesh stands for
  /// the devices that the arguments lie on.
  std::optional<Mesh> mesh{};
  /// Prefix of the tree of positional arguments (static ones left out): one spec for all, or
  /// tree(...) with one per argument. An axis on a dim cuts it: each device gets its part. Along
  /// axes that a spec doesn't name all devices get the same. nullptr hands the argument over as it
  /// is, without making it part of the call.
  ShardingTree in_specs{};
  /// Prefix of the result's tree. The parts are put together along the axes that a spec names on
  /// its dims. An axis that it doesn't name is a promise that the devices along it hold the same.
  ShardingTree out_specs{};
  /// The axes over which the function is per device (manual); empty: all that aren't yet. Over the
  /// others it is written for whole arrays and partitioned as any program.
  std::vector<std::string> axis_names{};
  /// Checks that promised equality can be inferred, from the axes over which each value varies.
  bool check_vma = true;
  /// Name in messages and in the text of programs.
  std::string name{};
  /// Names of the arguments in messages ("x", "params").
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

/// The axes of the mesh that are not among those; ShardingError if it lacks one of them.
std::vector<std::string> other_axes(const Mesh& mesh, const std::vector<std::string>& axes,
                                    Location location);

}  // namespace internal

/// What shard_map returns: call it as the function itself, with whole arrays.
template <class F, class Statics>
class ShardMapFunction : public internal::Calls<ShardMapFunction<F, Statics>, F> {
 public:
  using wrapped_function = F;

  ShardMapFunction(F f, ShardMapOptions options, Location location)
      : body_(std::move(f)), core_(std::move(options), location) {}

  /// The call; `location` is named in messages.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    return body_.call_with(core_, location, std::forward<Given>(given)...);
  }

 private:
  internal::FunctionBody<F, Statics> body_;
  internal::ShardMapCore core_;
};

/// Maps a function over the parts of arrays (jax.shard_map).
///
/// The function is written for one device: it gets parts of the arguments as in_specs cut them, may
/// use the collectives of tessera/collectives.h by the names of the mesh's axes, and returns parts
/// of the results. It is traced at each call, inside jit as part of the program, else as a program
/// of its own. Arrays that it captures are whole on every device.
///
/// Each value in it has a type that says over which axes it varies (varying_axes): an argument over
/// those of its spec, axis_index over its axes, the result of an operation over those of its
/// operands; psum and others take axes away. Values that don't vary are used beside others as they
/// are. out_specs may only leave out axes over which the result doesn't vary, and loops and
/// branches must agree on the types of what they carry and return: pcast changes a type.
///
/// Wrong specs (of other axes than the manual ones, longer than the rank, with sizes that don't
/// divide) are a ShardingError, wrong types a ValueError or TypeError, with the line of the call.
/// @code
/// Mesh mesh = make_mesh({{"x", 8}});
/// auto dot = shard_map([](Array a, Array b) { return psum(sum(a * b), "x"); },
///                      {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
/// Array s = dot(a, b);
/// @endcode
template <class F>
auto shard_map(F f, ShardMapOptions options, Location location = Location::current()) {
  return ShardMapFunction<std::decay_t<F>, StaticArgnums<>>(std::move(f), std::move(options),
                                                            location);
}
template <class F, int... I>
auto shard_map(F f, StaticArgnums<I...>, ShardMapOptions options,
               Location location = Location::current()) {
  return ShardMapFunction<std::decay_t<F>, StaticArgnums<I...>>(std::move(f), std::move(options),
                                                                location);
}

/// A tree of dims for smap: a dim, nullptr for none, or several (`axes_tree(0, nullptr)`).
class AxesTree {
 public:
  AxesTree() = default;
  AxesTree(std::nullptr_t) : given_(true) {}
  AxesTree(int dim) : given_(true), dim_(dim) {}
  static AxesTree sequence(std::vector<AxesTree> children);
  bool given() const { return given_; }
  /// A dim d becomes the spec that has `axis` there, nullptr P(). ValueError for a negative dim.
  ShardingTree specs(const std::string& axis, const std::string& what, Location location) const;

 private:
  bool given_ = false, several_ = false;
  std::optional<int> dim_;
  std::vector<AxesTree> children_;
};
/// What stands for the elements of a tuple, vector or struct, in order.
template <class... T>
AxesTree axes_tree(T&&... children) {
  return AxesTree::sequence({AxesTree(std::forward<T>(children))...});
}

/// How smap cuts arguments and joins results.
struct SmapOptions {
  /// The dim that is cut, of each argument (nullptr: none).
  AxesTree in_axes{};
  /// The dim along which the parts of a result are put together (nullptr: all are equal).
  AxesTree out_axes{};
  /// The axis of the mesh in scope.
  std::string axis_name{};
  /// Name in messages and in the text of programs.
  std::string name{};
};

namespace internal {
ShardMapOptions to_shard_map(const SmapOptions& options, Location location);
}  // namespace internal

/// shard_map over one axis of the mesh in scope, with dims in place of specs (jax.smap).
template <class F>
auto smap(F f, SmapOptions options, Location location = Location::current()) {
  return shard_map(std::move(f), internal::to_shard_map(options, location), location);
}

/// Under the names of jax.experimental.
namespace experimental {

/// The other arguments of jax.experimental.shard_map.
struct ShardMapOptions {
  /// check_vma of today.
  bool check_rep = true;
  /// The axes over which the function is *not* per device (`auto` in Python).
  std::vector<std::string> auto_axes{};
  /// Name in messages and in the text of programs.
  std::string name{};
};

/// jax.experimental.shard_map: tessera::shard_map with positional arguments.
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
