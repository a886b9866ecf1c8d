// SPDX-License-Identifier: Apache-2.0
// Conversion of public meshes and shardings to and from the compiler's forms.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <tessera/sharding.h>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

/// The mesh over logical devices. Logical device i is assignment[i]; without an assignment devices
/// are numbered in the mesh's own order. ShardingError if the device sets differ.
MeshRef to_logical_mesh(const Mesh& mesh, std::span<const Device> assignment = {});

/// A sharding on an abstract mesh, put on these devices, of which there must be as many; other
/// shardings are returned unchanged.
Sharding on_devices(const Sharding& s, std::span<const Device> devices);

/// The spec's dims as axes of a mesh that has all of them, possibly refined. Dims without an entry
/// are unsplit and closed, UNCONSTRAINED ones open. The spec must not be longer than the rank.
TensorSharding spec_to_axes(const PartitionSpec& spec, const MeshRef& mesh, std::int64_t ndim);

/// Any sharding as axes over the logical devices of an assignment (by default its own device
/// order). A NamedSharding keeps the axes' names.
TensorSharding to_tensor_sharding(const Sharding& s, std::int64_t ndim,
                                  std::span<const Device> assignment = {});

/// What joins the parts along unreduced axes, as specs and as shardings by axes say it; empty for
/// what no spec says.
Reduction reduction_of(UnreducedKind kind);
std::optional<UnreducedKind> unreduced_kind_of(Reduction reduction);

/// The spec of a sharding that uses full axes only; empty if it uses a sub-axis, isn't a sharding
/// by axes, or its parts are joined by what no spec says. Trailing unsplit dims are dropped; open
/// flags are lost.
std::optional<PartitionSpec> to_partition_spec(const TensorSharding& s);

/// The public sharding of a value of a compiled program: a NamedSharding on `mesh` if its axes can
/// express it, otherwise a GSPMDSharding over the assignment. NotImplementedError for parts of
/// maxima or minima that no spec of the mesh can express, as tilings are of sums.
Sharding to_public_sharding(const TensorSharding& s, const Mesh& mesh,
                            std::span<const Device> assignment);

}  // namespace tessera
