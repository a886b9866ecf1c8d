// SPDX-License-Identifier: Apache-2.0
// Where arrays lie: putting them on devices and constraining them inside traced functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tessera/array.h>
#include <tessera/sharding_tree.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {
std::vector<Array> device_put_leaves(const std::vector<Array>& leaves,
                                     const std::function<void(TreeVisitor&)>& walk,
                                     const ShardingTree& target, bool donate, Location location);
std::vector<Array> constrain_leaves(const std::vector<Array>& leaves,
                                    const std::function<void(TreeVisitor&)>& walk,
                                    const ShardingTree& target, Location location);
template <class T>
std::function<void(TreeVisitor&)> walker(const T& value) {
  return [&value](TreeVisitor& v) { visit_tree(const_cast<T&>(value), v); };
}
}  // namespace internal

struct DevicePutOptions {
  /// Delete the source once it has been moved.
  bool donate = false;
};

/// Places arrays (a tree, with a prefix of it as shardings) on devices: committed copies, without a
/// detour through the host when the devices are the same. Inside a trace it does nothing.
/// IndivisibleError if a dimension can't be split evenly, naming the leaf.
/// @code
/// Array x = device_put(zeros({8, 16}), {mesh, P("data", "model")});
/// @endcode
template <TreeLike T>
T device_put(const T& value, const ShardingTree& target, DevicePutOptions options = {},
             Location location = Location::current()) {
  return tree_unflatten(
      value, internal::device_put_leaves(tree_leaves(value), internal::walker(value), target,
                                         options.donate, location));
}
template <TreeLike T>
T device_put(const T& value, const NamedSharding& target, DevicePutOptions options = {},
             Location location = Location::current()) {
  return device_put(value, ShardingTree(target), options, location);
}
template <TreeLike T>
T device_put(const T& value, const Device& device, DevicePutOptions options = {},
             Location location = Location::current()) {
  return device_put(value, ShardingTree(SingleDeviceSharding(device)), options, location);
}

/// Fixes how intermediate arrays lie. Entries UNCONSTRAINED are left to propagation; missing and
/// null entries mean unsplit. A spec needs a mesh in scope. Sizes may be uneven inside jit.
/// Eagerly: the array moved there.
template <TreeLike T>
T with_sharding_constraint(const T& value, const ShardingTree& target,
                           Location location = Location::current()) {
  return tree_unflatten(value, internal::constrain_leaves(
                                   tree_leaves(value), internal::walker(value), target, location));
}
template <TreeLike T>
T with_sharding_constraint(const T& value, const NamedSharding& target,
                           Location location = Location::current()) {
  return with_sharding_constraint(value, ShardingTree(target), location);
}

/// An array in memory of its own, lying as `x` does. Inside a trace: the array.
Array copy(Operand x);

/// Like an array: shape, dtype and, if it is committed, its sharding.
Array shape_dtype_struct(const Array& like, Location location = Location::current());
/// With a spec on the mesh that is in scope when the sharding is asked for, by sharding() or
/// lower(). TypeError without a mesh then, ShardingError if it lacks an axis.
Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype, const PartitionSpec& spec,
                         Location location = Location::current());

namespace internal {
void check_process_local(const std::vector<Array>& leaves,
                         const std::function<void(TreeVisitor&)>& walk,
                         const std::vector<std::vector<std::int64_t>>& global_shapes,
                         Location location);
}  // namespace internal

/// Arrays from the data that this process holds. There is one process, so that is all of it:
/// `global_shapes` (none, one for all leaves, or one per leaf) must be the shapes that the data
/// has. ValueError for another number of them, ShapeError naming the leaf that has another shape.
template <TreeLike T>
T make_array_from_process_local_data(
    const ShardingTree& sharding, const T& local,
    const std::vector<std::vector<std::int64_t>>& global_shapes = {},
    Location location = Location::current()) {
  internal::check_process_local(tree_leaves(local), internal::walker(local), global_shapes,
                                location);
  return device_put(local, sharding, {}, location);
}

/// An array whose parts come from a callback, called once per distinct index.
/// ShapeError if a part has another shape or dtype than expected.
Array make_array_from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                               const std::function<Array(const Index&)>& callback,
                               Location location = Location::current());

/// An array from its parts, one single-device array per device, in any order.
/// ValueError: wrong number, devices that the sharding lacks (both sets of ids), duplicates, parts
/// with several shards; DTypeError, ShapeError: parts that don't fit.
Array make_array_from_single_device_arrays(const std::vector<std::int64_t>& shape,
                                           const Sharding& sharding,
                                           const std::vector<Array>& arrays,
                                           Location location = Location::current());

}  // namespace tessera
