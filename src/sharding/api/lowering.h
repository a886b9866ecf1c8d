// SPDX-License-Identifier: Apache-2.0
// Public meshes and shardings to and from the compiler's own forms.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <tessera/sharding.h>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

/// The mesh over logical devices. Logical device i is assignment[i]; without an assignment the
/// mesh's own order numbers the devices. ShardingError if the device sets differ.
MeshRef to_logical_mesh(const Mesh& mesh, std::span<const Device> assignment = {});

/// A sharding on an abstract mesh over these devices, as many as the mesh has; others as they are.
Sharding on_devices(const Sharding& s, std::span<const Device> devices);

/// Dims of the spec as axes of a mesh that has them all, whole or refined; entries beyond the spec
/// are unsplit and closed, UNCONSTRAINED ones open. The spec must not be longer than the rank.
TensorSharding spec_to_axes(const PartitionSpec& spec, const MeshRef& mesh, std::int64_t ndim);

/// Any sharding as axes over the logical devices of an assignment (its own device order if none is
/// given). A NamedSharding keeps the axes' names.
TensorSharding to_tensor_sharding(const Sharding& s, std::int64_t ndim,
                                  std::span<const Device> assignment = {});

/// The spec of a sharding whose axes are all whole axes; empty if a sub-axis is used, or if it is
/// no sharding by axes. Trailing unsplit dims are dropped; open flags are lost.
std::optional<PartitionSpec> to_partition_spec(const TensorSharding& s);

/// The public sharding of a value of a compiled program: a NamedSharding on `mesh` if its axes
/// express it, else a GSPMDSharding over the assignment.
Sharding to_public_sharding(const TensorSharding& s, const Mesh& mesh,
                            std::span<const Device> assignment);

}  // namespace tessera
