// SPDX-License-Identifier: Apache-2.0
// Communication written by hand, inside functions that run per device: those under shard_map, and
// the per-device function of a custom_partitioning. Axis names of the mesh are bound there.
// Outside: ValueError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/tree.h>

namespace tessera {

/// One or several mesh axes, major to minor.
class AxisNames {
 public:
  AxisNames(const char* name) : names_{name} {}
  AxisNames(std::string name) : names_{std::move(name)} {}
  AxisNames(std::initializer_list<std::string> names) : names_(names) {}
  AxisNames(std::vector<std::string> names) : names_(std::move(names)) {}
  const std::vector<std::string>& list() const { return names_; }
  std::string to_string() const;

 private:
  std::vector<std::string> names_;
};

/// Positions on the axes that take part together, as lists: each position stands in one of them,
/// once. Empty: all together.
using AxisIndexGroups = std::vector<std::vector<std::int64_t>>;

/// Options of psum, pmean, pmax and pmin.
struct CollectiveOptions {
  /// Each group has a result of its own; all are of one size.
  AxisIndexGroups axis_index_groups{};
};
/// Sum / mean / maximum / minimum of the devices' values along the axes; all get it. The result
/// doesn't vary over the axes (with groups it does). The sum of a plain number is a plain number:
/// `psum(1, "x")` is the size of "x". `psum(x, {"x", "y"})` is over both axes.
Array psum(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
Array pmean(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
Array pmax(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
Array pmin(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});

namespace internal {
template <class T>
concept TreeOfSeveral =
    TreeLike<T> && !std::is_same_v<T, Array> && !std::is_same_v<T, Operand> && !ScalarLike<T>;
}  // namespace internal
/// The same for each array of a tree.
template <internal::TreeOfSeveral T>
T psum(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return psum(Operand(x, location), axis, options); }, tree);
}
template <internal::TreeOfSeveral T>
T pmean(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
        Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmean(Operand(x, location), axis, options); }, tree);
}
template <internal::TreeOfSeveral T>
T pmax(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmax(Operand(x, location), axis, options); }, tree);
}
template <internal::TreeOfSeveral T>
T pmin(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmin(Operand(x, location), axis, options); }, tree);
}

/// Options of all_gather.
struct AllGatherOptions {
  /// Dimension where the parts stand side by side.
  std::int64_t axis = 0;
  /// True: concatenated along `axis`. False: stacked along a new dimension there.
  bool tiled = false;
  /// Each group gathers its own parts.
  AxisIndexGroups axis_index_groups{};
  /// Over what the result's type varies: "varying" (over the axes, as the operand), or
  /// "invarying": the devices hold equal arrays, and out_specs may leave the axes out.
  std::string to = "varying";
};
/// All devices along the axes get the parts of all.
Array all_gather(Operand x, const AxisNames& axis_name, const AllGatherOptions& options = {});

/// Options of psum_scatter.
struct ScatterOptions {
  std::int64_t scatter_dimension = 0;
  /// False: the dimension must equal the number of devices and goes away.
  bool tiled = false;
  /// Each group adds and cuts its own parts.
  AxisIndexGroups axis_index_groups{};
};
/// Each device gets its part of the sum.
Array psum_scatter(Operand x, const AxisNames& axis_name, const ScatterOptions& options = {});

/// Splits `split_axis` over the devices and joins what arrives along `concat_axis`. Not tiled:
/// split_axis must equal the number of devices, goes away, and a new dim appears at concat_axis.
Array all_to_all(Operand x, const AxisNames& axis_name, std::int64_t split_axis,
                 std::int64_t concat_axis, bool tiled = false,
                 const AxisIndexGroups& axis_index_groups = {});
/// all_to_all with both dims `axis`: this dim and the devices' change places.
Array pswapaxes(Operand x, const AxisNames& axis_name, std::int64_t axis,
                const AxisIndexGroups& axis_index_groups = {});

/// Sends along (source, target) pairs of positions on the axes; who gets nothing gets zeros.
/// ValueError if a source or target is repeated or out of range.
Array ppermute(Operand x, const AxisNames& axis_name,
               const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);
/// The device at position i gets what that at `permutation[i]` has.
Array pshuffle(Operand x, const AxisNames& axis_name, const std::vector<std::int64_t>& permutation);
/// All get what the device at position `source` has.
Array pbroadcast(Operand x, const AxisNames& axis_name, std::int64_t source);

/// This device's position along the axes (s32 scalar).
Array axis_index(const AxisNames& axis_name, Location location = Location::current());
/// Number of devices along the axes.
std::int64_t axis_size(const AxisNames& axis_name, Location location = Location::current());

/// Options of pcast.
struct PcastOptions {
  /// The type that is wanted; no other yet.
  std::string to = "varying";
};
/// The same value with another type: one that doesn't vary over these axes becomes one that may.
/// Needed where types must agree, as for the first value that a loop carries. Nothing is computed
/// or sent. ValueError if the value varies over one of them already.
Array pcast(Operand x, const AxisNames& axis_name, const PcastOptions& options = {});
/// pcast to "varying", over those of the axes over which the value doesn't vary yet.
Array pvary(Operand x, const AxisNames& axis_name);
/// The axes over which a value's type says that it may differ between devices (jax.typeof(x).vma),
/// sorted; none outside of per-device code.
std::vector<std::string> varying_axes(const Array& x);

}  // namespace tessera
