// SPDX-License-Identifier: Apache-2.0
// How jax.pmap divides arrays: the spec of a PmapSharding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// A dim that isn't divided.
struct NoSharding {
  friend bool operator==(const NoSharding&, const NoSharding&) = default;
};
/// A dim divided into parts of equal size: by each number in turn, major to minor.
struct Chunked {
  /// Numbers of parts, at least 1.
  std::vector<std::int64_t> chunks;
  friend bool operator==(const Chunked&, const Chunked&) = default;
};
/// A dim of this size with one index per device.
struct Unstacked {
  /// Size of the dim.
  std::int64_t size = 1;
  friend bool operator==(const Unstacked&, const Unstacked&) = default;
};
/// How one dim of an array is divided.
using AvalDimSharding = std::variant<NoSharding, Chunked, Unstacked>;

/// A dim of the devices along which the parts of one division follow each other.
struct ShardedAxis {
  /// Number of the division, counted over the array's dims in order: a Chunked dim has one per
  /// element of `chunks`, an Unstacked dim has one.
  std::int64_t axis = 0;
  friend bool operator==(const ShardedAxis&, const ShardedAxis&) = default;
};
/// A dim of the devices along which all hold the same.
struct Replicated {
  /// Number of devices.
  std::int64_t replicas = 1;
  friend bool operator==(const Replicated&, const Replicated&) = default;
};
/// What one dim of the devices is used for.
using MeshDimAssignment = std::variant<ShardedAxis, Replicated>;

/// How the dims of an array are divided, and over which dims of an array of devices
/// (JAX's ShardingSpec).
/// @code
/// // Rows over dim 1 of the devices, copies along dim 0:
/// ShardingSpec spec{{Chunked{{4}}, NoSharding{}}, {Replicated{2}, ShardedAxis{0}}};
/// PmapSharding s(devices(), spec);
/// @endcode
struct ShardingSpec {
  /// One per dim of the array.
  std::vector<AvalDimSharding> sharding;
  /// One per dim of the devices.
  std::vector<MeshDimAssignment> mesh_mapping;

  /// Checks the spec.
  /// @throws ValueError if a number is less than 1, or the mapping doesn't name each division of
  /// the
  ///   array's dims exactly once.
  void check(Location location = Location::current()) const;
  /// Returns the shape of the array of devices: the sizes of the dims in `mesh_mapping`.
  /// @throws ValueError as `check`.
  std::vector<std::int64_t> devices_shape(Location location = Location::current()) const;
  /// Returns for example "ShardingSpec((Chunked(4), NoSharding()), (ShardedAxis(0),))".
  std::string to_string() const;
  /// Hash, equal for equal specs.
  std::size_t hash() const;
  friend bool operator==(const ShardingSpec&, const ShardingSpec&) = default;
};

}  // namespace tessera
