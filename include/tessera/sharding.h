// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <tessera/device.h>
#include <tessera/mesh.h>
#include <tessera/partition_spec.h>

namespace tessera {

/// The part of one dimension that a device holds: [start, stop), or the whole dimension (open)
/// when both are empty, as Python's slice(None).
struct IndexSlice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  friend bool operator==(const IndexSlice&, const IndexSlice&) = default;
  std::string to_string() const;
};
/// One slice per dimension.
using Index = std::vector<IndexSlice>;

namespace internal {
class ShardingImpl;
}

/// Describes how an array lies on devices (jax.sharding.Sharding). An immutable value: copies share
/// one description. Made by one of the subclasses.
class Sharding {
 public:
  using Dims = std::vector<std::int64_t>;

  /// No sharding: only good to be assigned to; members other than `valid` throw ValueError.
  Sharding() = default;
  bool valid() const { return impl_ != nullptr; }

  /// True if the mesh is abstract: what asks for devices is a ValueError then.
  bool is_abstract() const;
  std::set<Device> device_set(Location location = Location::current()) const;
  /// Devices in the order of the shards.
  std::vector<Device> device_list(Location location = Location::current()) const;
  std::set<Device> addressable_devices(Location location = Location::current()) const;
  std::int64_t num_devices() const;
  /// Device → the slice it holds. IndivisibleError as for shard_shape.
  std::map<Device, Index> devices_indices_map(const Dims& global_shape,
                                              Location location = Location::current()) const;
  std::map<Device, Index> addressable_devices_indices_map(
      const Dims& global_shape, Location location = Location::current()) const;
  /// Device → number of the copy of its slice, in device order.
  std::map<Device, std::int64_t> replica_ids(const Dims& global_shape,
                                             Location location = Location::current()) const;
  /// Shape of one device's part. IndivisibleError with sharding, dim, ways, size and shape.
  Dims shard_shape(const Dims& global_shape, Location location = Location::current()) const;
  bool is_fully_replicated() const;
  bool is_fully_addressable(Location location = Location::current()) const;
  /// Same parts on the same devices, for an array of `ndim` dimensions.
  bool is_equivalent_to(const Sharding& other, std::int64_t ndim) const;
  /// "device" unless another kind was asked for.
  std::string memory_kind() const;
  Sharding with_memory_kind(const std::string& kind, Location location = Location::current()) const;
  /// HLO's text of it for that rank, for example "{devices=[2,4]<=[8]}".
  std::string to_hlo_text(std::int64_t ndim) const;
  std::string to_string() const;

  /// Structural: NamedShardings are equal if mesh, spec and memory kind are.
  friend bool operator==(const Sharding& a, const Sharding& b);
  std::size_t hash() const;

  const internal::ShardingImpl& impl() const;
  explicit Sharding(std::shared_ptr<const internal::ShardingImpl> impl) : impl_(std::move(impl)) {}

 protected:
  std::shared_ptr<const internal::ShardingImpl> impl_;
};

/// A mesh and a spec (jax.sharding.NamedSharding). The mesh may be an AbstractMesh.
/// @code
/// NamedSharding s(make_mesh({{"x", 2}, {"y", 4}}), P("x", "y"));
/// @endcode
class NamedSharding : public Sharding {
 public:
  /// ShardingError for an axis that the mesh lacks (naming those it has), DuplicateSpecError for a
  /// repeated axis.
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                Location location = Location::current());
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec, const std::string& memory_kind,
                Location location = Location::current());
  /// A spec is needed: say P() for no split.
  NamedSharding(const Mesh& mesh, std::nullptr_t) = delete;
  /// TypeError if the sharding is of another class.
  explicit NamedSharding(const Sharding& s, Location location = Location::current());
  static bool is(const Sharding& s);
  const Mesh& mesh() const;
  const PartitionSpec& spec() const;
};

/// Everything on one device (jax.sharding.SingleDeviceSharding).
class SingleDeviceSharding : public Sharding {
 public:
  explicit SingleDeviceSharding(const Device& device, const std::string& memory_kind = "device",
                                Location location = Location::current());
  explicit SingleDeviceSharding(const Sharding& s, Location location = Location::current());
  static bool is(const Sharding& s);
  const Device& device() const;
};

/// An N-d arrangement of devices: the array's dim i is split shape()[i] ways
/// (jax.sharding.PositionalSharding). Legacy; equals a tiling.
class PositionalSharding : public Sharding {
 public:
  explicit PositionalSharding(std::vector<Device> devices,
                              const std::string& memory_kind = "device",
                              Location location = Location::current());
  static bool is(const Sharding& s);
  explicit PositionalSharding(const Sharding& s, Location location = Location::current());
  const std::vector<std::int64_t>& shape() const;
  std::int64_t ndim() const { return std::int64_t(shape().size()); }
  PositionalSharding reshape(const std::vector<std::int64_t>& shape,
                             Location location = Location::current()) const;
  PositionalSharding transpose(const std::vector<std::int64_t>& perm = {},
                               Location location = Location::current()) const;
  /// Merges a dimension into copies: the arrangement has size 1 there and more replicas.
  PositionalSharding replicate(std::optional<std::int64_t> axis = {}, bool keepdims = true,
                               Location location = Location::current()) const;
};

/// One slice of one dimension per device, as jax.pmap lays arrays out (jax.sharding.PmapSharding).
/// The mapped dimension stays, with size 1, in each device's part.
class PmapSharding : public Sharding {
 public:
  /// Dim `sharded_dim` is mapped over the devices, one index each; none: replicated.
  static PmapSharding make_default(const std::vector<std::int64_t>& shape,
                                   std::optional<std::int64_t> sharded_dim = 0,
                                   std::vector<Device> devices = {},
                                   Location location = Location::current());
  static bool is(const Sharding& s);
  explicit PmapSharding(const Sharding& s, Location location = Location::current());
  const std::vector<Device>& devices() const;
  /// Text of the sharding spec, for example "ShardingSpec((Chunked(4), NoSharding()), ...)".
  std::string sharding_spec() const;
};

/// A list of devices and a tiling in HLO's text form (jax.sharding.GSPMDSharding).
class GSPMDSharding : public Sharding {
 public:
  /// ParseError or ValueError if the text is no sharding of that many devices. With
  /// "{maximal device=N}" the whole array is on the N-th of them, and the others have no part in
  /// it: num_devices() is 1.
  GSPMDSharding(std::vector<Device> devices, const std::string& hlo_sharding,
                const std::string& memory_kind = "device", Location location = Location::current());
  explicit GSPMDSharding(const Sharding& s, Location location = Location::current());
  static GSPMDSharding get_replicated(std::vector<Device> devices,
                                      Location location = Location::current());
  static bool is(const Sharding& s);
  /// HLO's text.
  const std::string& hlo_sharding() const;
};

/// Reads the axes back from a tiling: the NamedSharding on `mesh` that places arrays of that rank
/// as `s` does; empty if there is none.
std::optional<NamedSharding> to_named_sharding(const Sharding& s, const Mesh& mesh,
                                               std::int64_t ndim);

}  // namespace tessera
