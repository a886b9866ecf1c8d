// SPDX-License-Identifier: Apache-2.0
// Values of several processes that run one program: gathered, compared, made into arrays on the
// devices of all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/mesh.h>
#include <tessera/placement.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `process_allgather`.
struct ProcessAllgatherOptions {
  /// Join the processes' arrays along dimension 0, instead of along a new one before it. Scalars
  /// are joined to a vector.
  bool tiled = false;
};

namespace internal {
std::vector<Array> allgather_leaves(const std::vector<Array>& leaves,
                                    const ProcessAllgatherOptions& options, Location location);
std::vector<Array> broadcast_leaves(const std::vector<Array>& leaves, std::optional<bool> is_source,
                                    Location location);
void assert_equal_leaves(const std::vector<Array>& leaves, const std::string& message,
                         Location location);
std::vector<Array> to_global_leaves(const std::vector<Array>& leaves,
                                    const std::function<void(TreeVisitor&)>& walk, const Mesh& mesh,
                                    const ShardingTree& specs, Location location);
std::vector<Array> to_host_local_leaves(const std::vector<Array>& leaves,
                                        const std::function<void(TreeVisitor&)>& walk,
                                        const Mesh& mesh, const ShardingTree& specs,
                                        Location location);
}  // namespace internal

/// Gathers the values of all processes on each of them
/// (jax.experimental.multihost_utils.process_allgather). All processes must call it.
///
/// An array of this process alone, of shape [...], gives one of shape [processes, ...]; tiled, one
/// that is so many times longer along dimension 0. An array over devices of several processes gives
/// its entire value, and `tiled` must be set. Results are arrays of this process.
/// @code
/// Array losses = process_allgather(loss);                    // one per process
/// Array whole = process_allgather(weights, {.tiled = true}); // the value of a sharded array
/// @endcode
/// @throws ValueError if an array is over devices of several processes, and `tiled` isn't set.
/// @throws ShapeError if the processes' arrays have different shapes or dtypes.
/// @throws RuntimeError if this process has no part of an array, or another process ends, fails or
///   calls something else.
/// @throws TracerError while a function is traced.
template <TreeLike T>
T process_allgather(const T& value, ProcessAllgatherOptions options = {},
                    Location location = Location::current()) {
  return tree_unflatten(value, internal::allgather_leaves(tree_leaves(value), options, location));
}

/// Gives all processes the values of one of them
/// (jax.experimental.multihost_utils.broadcast_one_to_all). All processes must call it, with arrays
/// of the same shapes and dtypes.
/// @param value  A tree of arrays of this process; only the source's are looked at.
/// @param is_source  Whether this process is the source; by default process 0 is.
/// @param location  The line named in messages.
/// @throws ValueError if no process, or more than one, is the source.
/// @throws ShapeError if the processes' arrays have different shapes or dtypes.
/// @throws RuntimeError as `process_allgather`.
template <TreeLike T>
T broadcast_one_to_all(const T& value, std::optional<bool> is_source = {},
                       Location location = Location::current()) {
  return tree_unflatten(value, internal::broadcast_leaves(tree_leaves(value), is_source, location));
}

/// Waits until all processes have called it (jax.experimental.multihost_utils.sync_global_devices).
/// @throws RuntimeError, on all processes, if they give different names, or as `process_allgather`.
void sync_processes(const std::string& name, Location location = Location::current());

/// Checks that the values are the same in all processes
/// (jax.experimental.multihost_utils.assert_equal). All processes must call it.
/// @throws RuntimeError, on all processes, which begins with `message` and says which processes
///   differ from process 0.
template <TreeLike T>
void assert_equal(const T& value, const std::string& message = "",
                  Location location = Location::current()) {
  internal::assert_equal_leaves(tree_leaves(value), message, location);
}

/// Makes one array on a mesh of the processes' parts of it
/// (jax.experimental.multihost_utils.host_local_array_to_global_array): what this process gives is
/// what its devices hold together. Arrays over several processes are returned as they are.
/// @param value  A tree of arrays of this process.
/// @param mesh  The mesh, on which this process's devices form a block.
/// @param specs  A prefix of the tree, of specs.
/// @param location  The line named in messages.
/// @throws ValueError if a leaf of `specs` isn't a spec.
/// @throws ShardingError as `Mesh::local_mesh`.
/// @throws IndivisibleError if a part can't be split evenly among this process's devices.
template <TreeLike T>
T host_local_array_to_global_array(const T& value, const Mesh& mesh, const ShardingTree& specs,
                                   Location location = Location::current()) {
  return tree_unflatten(
      value, internal::to_global_leaves(tree_leaves(value), internal::walker(value), mesh, specs,
                                        location));
}

/// Makes arrays of this process of what its devices hold of arrays on a mesh
/// (jax.experimental.multihost_utils.global_array_to_host_local_array). Arrays of this process
/// alone are returned as they are.
/// @throws as `host_local_array_to_global_array`, and ValueError if an array isn't sharded as its
///   spec says.
template <TreeLike T>
T global_array_to_host_local_array(const T& value, const Mesh& mesh, const ShardingTree& specs,
                                   Location location = Location::current()) {
  return tree_unflatten(
      value, internal::to_host_local_leaves(tree_leaves(value), internal::walker(value), mesh,
                                            specs, location));
}

/// Returns which of the slices of a dimension this process's devices hold, and how many slices the
/// processes hold: (1, 4) means the second of four. Processes whose devices hold the same elements
/// have the same slice.
/// @throws ValueError if there is no such dimension.
/// @throws ShardingError if the processes hold unequally much of it, or slices that overlap in a
///   part, or this process has none of the devices.
std::pair<std::int64_t, std::int64_t> process_index_and_count(
    const Sharding& sharding, std::int64_t dim, std::int64_t ndim,
    Location location = Location::current());

/// Returns the shape of an array of which this process holds a part of the given shape; no value
/// for a dimension of which the processes hold unequally much.
std::vector<std::optional<std::int64_t>> local_to_global_shape(
    const Sharding& sharding, const std::vector<std::int64_t>& local_shape,
    Location location = Location::current());

}  // namespace tessera
