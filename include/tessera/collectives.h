// SPDX-License-Identifier: Apache-2.0
// Collective communication in per-device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/partition_spec.h>
#include <tessera/tree.h>

/// @file
/// Collective communication by the names of mesh axes (as in jax.lax), for code that runs per
/// device: functions under `shard_map` and the per-device function of `custom_partitioning`. Under
/// a `vmap` with an axis_name they may name its batch: entries then stand in place of devices, and
/// the collectives are computed by plain operations along the batch.
///
/// N is the number of devices along the axes, or in a group. A device's *position* along the axes
/// is its row-major index, the first axis being the major one. Shapes are those of one device's
/// parts.
///
/// @throws ValueError outside of per-device code, or if an axis isn't one of the mesh's, isn't
///   manual, or is given twice; if groups don't cover all positions exactly once or differ in size;
///   if a dimension is out of range.
/// @throws ShapeError if a dimension's size doesn't fit N.
///
/// All messages name the caller's line.

namespace tessera {

/// One or several mesh axes, major to minor: "x", {"x", "y"} or axes("x", "y").
class AxisNames {
 public:
  /// Axes, converted implicitly from their names.
  AxisNames(const char* name) : names_{name} {}
  AxisNames(std::string name) : names_{std::move(name)} {}
  AxisNames(std::initializer_list<std::string> names) : names_(names) {}
  AxisNames(std::vector<std::string> names) : names_(std::move(names)) {}
  /// The axes of an entry of a spec, as `axes("x", "y")` gives one.
  AxisNames(const SpecEntry& entry) : names_(entry.axes()) {}
  AxisNames(std::nullptr_t) = delete;
  /// The names.
  const std::vector<std::string>& list() const { return names_; }
  /// Returns 'x' or ('x', 'y').
  std::string to_string() const;

 private:
  std::vector<std::string> names_;
};

/// A partition of the positions along the axes into groups of equal size that communicate among
/// themselves, for example {{0, 1}, {2, 3}}. Empty: one group of all positions.
using AxisIndexGroups = std::vector<std::vector<std::int64_t>>;

/// Options of psum, pmean, pmax and pmin.
struct CollectiveOptions {
  /// Groups that are reduced separately.
  AxisIndexGroups axis_index_groups{};
};
/// All-reduce: the sum of the devices' values along the axes, on all of them. [..] -> [..]; pred
/// becomes s32.
///
/// The result doesn't vary over the axes, except with groups. The sum of a plain number is a plain
/// number: `psum(1, "x")` is the size of "x".
/// @code
/// psum(x, "x");
/// psum(x, {"x", "y"});   // over both axes
/// @endcode
Array psum(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
/// Mean of the devices' values along the axes, as `psum`. Integers become f32.
Array pmean(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
/// Elementwise maximum of the devices' values along the axes, as `psum`.
Array pmax(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});
/// Elementwise minimum of the devices' values along the axes, as `psum`.
Array pmin(Operand x, const AxisNames& axis, const CollectiveOptions& options = {});

namespace internal {
template <class T>
concept TreeOfSeveral =
    TreeLike<T> && !std::is_same_v<T, Array> && !std::is_same_v<T, Operand> && !ScalarLike<T>;
}  // namespace internal
/// `psum` of each array of a tree.
template <internal::TreeOfSeveral T>
T psum(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return psum(Operand(x, location), axis, options); }, tree);
}
/// `pmean` of each array of a tree.
template <internal::TreeOfSeveral T>
T pmean(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
        Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmean(Operand(x, location), axis, options); }, tree);
}
/// `pmax` of each array of a tree.
template <internal::TreeOfSeveral T>
T pmax(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmax(Operand(x, location), axis, options); }, tree);
}
/// `pmin` of each array of a tree.
template <internal::TreeOfSeveral T>
T pmin(const T& tree, const AxisNames& axis, const CollectiveOptions& options = {},
       Location location = Location::current()) {
  return tree_map([&](const Array& x) { return pmin(Operand(x, location), axis, options); }, tree);
}

/// Options of all_gather.
struct AllGatherOptions {
  /// Dimension of the result along which the parts are joined.
  std::int64_t axis = 0;
  /// True: parts are concatenated along `axis`. False: they are stacked along a new dimension
  /// `axis`.
  bool tiled = false;
  /// Groups that gather separately.
  AxisIndexGroups axis_index_groups{};
  /// Whether the result counts as varying over the axes: "varying" does; "invarying" doesn't, so
  /// that out_specs may leave the axes out.
  std::string to = "varying";
};
/// All-gather: every device along the axes gets the values of all.
///
/// For axis 0: [D0, ..] -> [N, D0, ..], or [N * D0, ..] if tiled.
/// @throws ValueError if `to` is neither "varying" nor "invarying", or "invarying" with groups.
Array all_gather(Operand x, const AxisNames& axis_name, const AllGatherOptions& options = {});

/// Options of psum_scatter.
struct ScatterOptions {
  /// The dimension that is split among the devices.
  std::int64_t scatter_dimension = 0;
  /// True: the dimension's size is divided by N. False: its size must be N, and it is removed.
  bool tiled = false;
  /// Groups that reduce separately.
  AxisIndexGroups axis_index_groups{};
};
/// Reduce-scatter: the sum of the devices' values along the axes, split among them.
///
/// For dimension 0: [N, ..] -> [..], or [D0, ..] -> [D0 / N, ..] if tiled.
Array psum_scatter(Operand x, const AxisNames& axis_name, const ScatterOptions& options = {});

/// All-to-all: splits `split_axis` into N parts, sends the i-th to the device at position i, and
/// concatenates the parts received along `concat_axis`.
///
/// Tiled, for split 0 and concat 1: [A, B] -> [A / N, N * B]. Not tiled, split_axis has size N and
/// is removed, and a new dimension of size N is inserted at concat_axis.
Array all_to_all(Operand x, const AxisNames& axis_name, std::int64_t split_axis,
                 std::int64_t concat_axis, bool tiled = false,
                 const AxisIndexGroups& axis_index_groups = {});
/// Exchanges dimension `axis`, of size N, with the mesh axes: `all_to_all` with `axis` as both
/// dimensions.
Array pswapaxes(Operand x, const AxisNames& axis_name, std::int64_t axis,
                const AxisIndexGroups& axis_index_groups = {});

/// Collective permute: for each (source, target) pair of positions sends the source's value to the
/// target. Devices that aren't a target get zeros.
/// @code
/// ppermute(x, "x", {{0, 1}, {1, 2}, {2, 3}});   // shifts by one
/// @endcode
/// @throws ValueError if a source or target is repeated or out of range.
Array ppermute(Operand x, const AxisNames& axis_name,
               const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);
/// Collective permute by a permutation: the device at position i gets the value of the device at
/// permutation[i].
/// @throws ValueError if it isn't a permutation of all positions.
Array pshuffle(Operand x, const AxisNames& axis_name, const std::vector<std::int64_t>& permutation);
/// Broadcast: all devices along the axes get the value of the device at position `source`.
/// @throws ValueError if `source` is out of range.
Array pbroadcast(Operand x, const AxisNames& axis_name, std::int64_t source);

/// Returns this device's position along the axes, an s32 scalar.
Array axis_index(const AxisNames& axis_name, Location location = Location::current());
/// Returns the number of devices along the axes.
std::int64_t axis_size(const AxisNames& axis_name, Location location = Location::current());

/// Options of pcast.
struct PcastOptions {
  /// "varying", the only value supported.
  std::string to = "varying";
};
/// Marks a value as varying over axes over which it doesn't vary yet. Nothing is computed or sent.
/// Needed where values must vary over the same axes, as for the initial value of a loop.
/// @throws ValueError if the value varies over one of the axes already.
/// @throws NotImplementedError if `to` is "reduced" or "unreduced".
Array pcast(Operand x, const AxisNames& axis_name, const PcastOptions& options = {});
/// `pcast` to "varying" over those of the given axes over which the value doesn't vary yet.
Array pvary(Operand x, const AxisNames& axis_name);
/// Returns the axes over which a value may differ between devices (jax.typeof(x).vma), sorted.
/// Empty outside of per-device code.
std::vector<std::string> varying_axes(const Array& x);

}  // namespace tessera
