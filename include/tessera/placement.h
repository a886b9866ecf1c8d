// SPDX-License-Identifier: Apache-2.0
// Placement of arrays on devices, and sharding constraints inside traced functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `device_put`.
struct DevicePutOptions {
  /// Delete the source arrays after they have been copied.
  bool donate = false;
  /// Of which arrays of the tree, in order, to delete the source; empty: of all if `donate`.
  std::vector<bool> donate_leaves{};
};

namespace internal {
std::vector<Array> device_put_leaves(const std::vector<Array>& leaves,
                                     const std::function<void(TreeVisitor&)>& walk,
                                     const ShardingTree& target, const DevicePutOptions& options,
                                     Location location);
std::vector<Array> transfer_leaves(const std::vector<Array>& leaves,
                                   const std::function<void(TreeVisitor&)>& walk,
                                   const std::string& kind, const DevicePutOptions& options,
                                   Location location);
std::vector<Array> constrain_leaves(const std::vector<Array>& leaves,
                                    const std::function<void(TreeVisitor&)>& walk,
                                    const ShardingTree& target, Location location);
template <class T>
std::function<void(TreeVisitor&)> walker(const T& value) {
  return [&value](TreeVisitor& v) { visit_tree(const_cast<T&>(value), v); };
}
}  // namespace internal

/// A target of `device_put`: memory of that kind on the devices where an array is, its sharding
/// unchanged (jax.memory.Space, TransferToMemoryKind).
struct TransferToMemoryKind {
  /// "device", "pinned_host" or "unpinned_host".
  std::string kind;
};

/// Places a tree of arrays on devices (jax.device_put).
///
/// Returns committed arrays with the requested shardings. If the devices stay the same, data moves
/// by collectives and buffers that needn't move are shared.
///
/// Where the target has devices of several processes, all of these call it, and a value that is on
/// no devices of several processes must be the same in each of them, which is checked.
///
/// Inside a traced function an array that is in another kind of memory than the target's sharding
/// moves there, and is sharded as the target says; what moves no array to another memory does
/// nothing.
/// @code
/// Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
/// Array x = device_put(zeros({8, 16}), {mesh, P("data", "model")});
/// Array waits = device_put(x, {mesh, P("data", "model"), "pinned_host"});
/// @endcode
/// @param value  A tree of arrays.
/// @param target  A prefix of that tree; UNSPECIFIED means the first device, nullptr replicated on
///   the mesh in scope.
/// @param options  Whether to delete the source.
/// @param location  The line named in messages.
/// @throws IndivisibleError if a dimension can't be split evenly; the message names the array.
/// @throws ShardingError if a spec has more entries than its array has dimensions.
/// @throws ValueError if `target` isn't a prefix of the tree, or names devices that this process
///   doesn't have.
/// @throws RuntimeError if a spec has no mesh in scope, an array has been deleted, or the
/// processes'
///   values differ.
template <TreeLike T>
T device_put(const T& value, const ShardingTree& target, DevicePutOptions options = {},
             Location location = Location::current()) {
  return tree_unflatten(
      value, internal::device_put_leaves(tree_leaves(value), internal::walker(value), target,
                                         options, location));
}
/// Places all arrays of a tree with one sharding.
template <TreeLike T>
T device_put(const T& value, const NamedSharding& target, DevicePutOptions options = {},
             Location location = Location::current()) {
  return device_put(value, ShardingTree(target), options, location);
}
/// Places all arrays of a tree on one device.
template <TreeLike T>
T device_put(const T& value, const Device& device, DevicePutOptions options = {},
             Location location = Location::current()) {
  return device_put(value, ShardingTree(SingleDeviceSharding(device)), options, location);
}

/// Places all arrays of a tree in one memory of one device.
template <TreeLike T>
T device_put(const T& value, const Memory& memory, DevicePutOptions options = {},
             Location location = Location::current()) {
  return device_put(value, ShardingTree(SingleDeviceSharding(memory.device, memory.kind, location)),
                    options, location);
}
/// Moves all arrays of a tree to another kind of memory, on the devices where they are; plain
/// numbers to the first device.
///
/// Inside a traced function it is an operation of the program: the device doesn't hold the array
/// from there until it is moved back. Gradients move the other way.
/// @code
/// auto f = jit([](Array x) {
///   Array waits = device_put(x, TransferToMemoryKind{"pinned_host"});
///   return x * 2 + device_put(waits, TransferToMemoryKind{"device"});
/// });
/// @endcode
/// @throws ValueError if a device can't address memory of that kind.
template <TreeLike T>
T device_put(const T& value, const TransferToMemoryKind& target, DevicePutOptions options = {},
             Location location = Location::current()) {
  return tree_unflatten(
      value, internal::transfer_leaves(tree_leaves(value), internal::walker(value), target.kind,
                                       options, location));
}

/// Constrains the sharding of intermediate arrays (jax.lax.with_sharding_constraint).
///
/// Dimensions whose entry is UNCONSTRAINED are left to propagation; missing and null entries mean
/// not split. Inside traced functions sizes needn't divide evenly; eagerly it reshards the arrays.
/// In code that is per device over some axes of a mesh it may name only the other axes.
/// @code
/// auto f = jit([&](Array x, Array w) {
///   const NamedSharding rows(mesh, P("data", UNCONSTRAINED));
///   return relu(with_sharding_constraint(matmul(x, w), rows));
/// });
/// @endcode
/// @param value  A tree of arrays.
/// @param target  A prefix of that tree.
/// @param location  The line named in messages.
/// @throws ShardingError if a spec names an axis that the mesh lacks or that is manual here, or has
///   more entries than its array has dimensions.
/// @throws IndivisibleError if a dimension can't be split evenly, eagerly only.
/// @throws ValueError if `target` isn't a prefix of the tree, or is UNSPECIFIED for an array.
/// @throws RuntimeError if a spec has no mesh in scope.
template <TreeLike T>
T with_sharding_constraint(const T& value, const ShardingTree& target,
                           Location location = Location::current()) {
  return tree_unflatten(value, internal::constrain_leaves(
                                   tree_leaves(value), internal::walker(value), target, location));
}
/// Constrains all arrays of a tree to one sharding.
template <TreeLike T>
T with_sharding_constraint(const T& value, const NamedSharding& target,
                           Location location = Location::current()) {
  return with_sharding_constraint(value, ShardingTree(target), location);
}

/// Waits until the elements of all arrays of a tree are there, and returns it
/// (jax.block_until_ready).
/// @code
/// const Array y = block_until_ready(step(x));  // the time up to here is that of the step
/// @endcode
/// @throws Error what the program that should have made them threw.
/// @throws TracerError for a tracer.
template <TreeLike T>
T block_until_ready(const T& value, Location location = Location::current()) {
  for (const Array& leaf : tree_leaves(value)) leaf.block_until_ready(location);
  return value;
}

/// Returns a copy of x with its own memory and the same sharding. Inside a traced function it
/// returns x.
Array copy(Operand x);

/// Describes an array, for `lower`: its shape, dtype and, if it is committed, sharding.
Array shape_dtype_struct(const Array& like, Location location = Location::current());
/// What to change of a description of an array.
struct ShapeDtypeChanges {
  std::optional<std::vector<std::int64_t>> shape{};  ///< the new shape
  std::optional<DType> dtype{};                      ///< the new dtype, which isn't weak
  std::optional<Sharding> sharding{};                ///< the new sharding
};
/// Describes an array like another one but for these changes (jax.ShapeDtypeStruct.update).
/// @throws ShardingError if the sharding doesn't fit the shape.
Array shape_dtype_struct(const Array& like, const ShapeDtypeChanges& changes,
                         Location location = Location::current());
/// Describes an array whose spec refers to the mesh that will be in scope when its sharding is
/// needed, by `sharding()` or `lower`. At that point no mesh in scope is a TypeError, and a missing
/// axis a ShardingError.
/// @throws ShardingError if the spec has more entries than the shape.
Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype, const PartitionSpec& spec,
                         Location location = Location::current());

namespace internal {
std::vector<Array> process_local_leaves(const std::vector<Array>& leaves,
                                        const std::function<void(TreeVisitor&)>& walk,
                                        const ShardingTree& sharding,
                                        const std::vector<std::vector<std::int64_t>>& global_shapes,
                                        Location location);
}  // namespace internal

/// Creates arrays from the data that this process holds
/// (jax.make_array_from_process_local_data).
///
/// Along each dimension the data is either all of the array, or what the devices of this process
/// hold: their distinct parts one after the other. Without global shapes it is the latter, and the
/// sizes follow from how many processes share a dimension. With one process that is all of the
/// data.
/// @code
/// // Each of 4 processes has read 32 rows of a batch of 128.
/// Array batch = make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows);
/// @endcode
/// @param sharding  A prefix of the tree of arrays.
/// @param local  The data.
/// @param global_shapes  None, one for all arrays, or one per array.
/// @param location  The line named in messages.
/// @throws ValueError for another number of shapes.
/// @throws ShapeError if the data is of neither size.
/// @throws ShardingError if the processes hold unequally much of a dimension, and no global shape
/// is
///   given.
/// @throws TracerError while a function is traced.
template <TreeLike T>
T make_array_from_process_local_data(
    const ShardingTree& sharding, const T& local,
    const std::vector<std::vector<std::int64_t>>& global_shapes = {},
    Location location = Location::current()) {
  return tree_unflatten(
      local, internal::process_local_leaves(tree_leaves(local), internal::walker(local), sharding,
                                            global_shapes, location));
}

/// Creates an array from a callback that returns the part at an index
/// (jax.make_array_from_callback). It is called once per distinct index of this process's devices.
/// @code
/// Array x = make_array_from_callback({8, 4}, NamedSharding(mesh, P("x")), [](const Index& part) {
///   return full({1, 4}, float(part[0].start.value_or(0)));
/// });
/// @endcode
/// @throws ShapeError if a part doesn't have the shard's shape, or the parts have different dtypes.
/// @throws ShardingError if the sharding doesn't fit the shape.
/// @throws ValueError if this process has none of the devices: then the dtype must be given.
/// @throws TracerError while a function is traced.
Array make_array_from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                               const std::function<Array(const Index&)>& callback,
                               Location location = Location::current());
/// The same with the dtype that all parts have.
Array make_array_from_callback(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                               const std::function<Array(const Index&)>& callback, DType dtype,
                               Location location = Location::current());

/// Creates an array from its parts (jax.make_array_from_single_device_arrays): one array per device
/// of the sharding that is of this process, each on that device, in any order. The parts' memory is
/// shared.
/// @throws ValueError if their number is wrong, two are on one device, one is on several devices,
///   or their devices aren't those of the sharding.
/// @throws ShapeError if a part doesn't have the shard's shape.
/// @throws DTypeError if the parts have different dtypes.
Array make_array_from_single_device_arrays(const std::vector<std::int64_t>& shape,
                                           const Sharding& sharding,
                                           const std::vector<Array>& arrays,
                                           Location location = Location::current());

}  // namespace tessera
