// SPDX-License-Identifier: Apache-2.0
// How arrays are laid out on devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/device.h>
#include <tessera/mesh.h>
#include <tessera/partition_spec.h>
#include <tessera/sharding/sharding_spec.h>

namespace tessera {

/// The part of one dimension that a device holds: [start, stop), or the entire dimension if both
/// are absent, as Python's slice(None).
struct IndexSlice {
  /// First index.
  std::optional<std::int64_t> start;
  /// Index after the last.
  std::optional<std::int64_t> stop;
  friend bool operator==(const IndexSlice&, const IndexSlice&) = default;
  /// Returns "start:stop", or ":".
  std::string to_string() const;
};
/// The part of an array that a device holds: one slice per dimension.
using Index = std::vector<IndexSlice>;

namespace internal {
class ShardingImpl;
}

/// How an array is laid out on devices (jax.sharding.Sharding): which device holds which part.
///
/// An immutable value, created by one of the subclasses; copies are cheap. Functions of a global
/// shape check that the sharding fits it.
///
/// @throws ValueError from all members but `valid`, `to_string`, `hash` and comparison if it is
///   empty (default constructed), and from functions that name devices if its mesh is abstract.
class Sharding {
 public:
  /// A shape.
  using Dims = std::vector<std::int64_t>;

  /// An empty sharding, to be assigned to.
  Sharding() = default;
  /// False if the sharding is empty.
  bool valid() const { return impl_ != nullptr; }

  /// True if the mesh is abstract: there are no devices.
  bool is_abstract() const;
  /// The devices.
  std::set<Device> device_set(Location location = Location::current()) const;
  /// The devices in the order of the shards.
  std::vector<Device> device_list(Location location = Location::current()) const;
  /// The devices that belong to this process.
  std::set<Device> addressable_devices(Location location = Location::current()) const;
  /// The number of devices.
  std::int64_t num_devices() const;
  /// Returns the part of an array of this shape that each device holds.
  /// @throws ShardingError as for `shard_shape`.
  std::map<Device, Index> devices_indices_map(const Dims& global_shape,
                                              Location location = Location::current()) const;
  /// The same for the devices of this process.
  std::map<Device, Index> addressable_devices_indices_map(
      const Dims& global_shape, Location location = Location::current()) const;
  /// Returns for each device which copy of its part it holds, counted from 0 in the order of the
  /// devices. The copies with number 0 together make up the array.
  /// @throws ShardingError as for `shard_shape`.
  std::map<Device, std::int64_t> replica_ids(const Dims& global_shape,
                                             Location location = Location::current()) const;
  /// Returns the shape of one device's part of an array of this shape.
  /// @throws IndivisibleError if the size of a dimension isn't a multiple of its number of parts.
  /// @throws ShardingError if the sharding is for another rank.
  Dims shard_shape(const Dims& global_shape, Location location = Location::current()) const;
  /// True if every device holds the entire array.
  bool is_fully_replicated() const;
  /// True if all devices belong to this process.
  bool is_fully_addressable(Location location = Location::current()) const;
  /// True if both place the same parts of arrays of rank `ndim` on the same devices, even if they
  /// are of different classes or name different axes. Unreduced parts are of the same kind.
  bool is_equivalent_to(const Sharding& other, std::int64_t ndim) const;
  /// The kind of memory: "device", "pinned_host" or "unpinned_host".
  std::string memory_kind() const;
  /// Returns a copy with another kind of memory.
  /// @throws ValueError if the devices can't address it; the message lists the kinds that they can.
  Sharding with_memory_kind(const std::string& kind, Location location = Location::current()) const;
  /// Returns the sharding of arrays of rank `ndim` as HLO text, for example "{devices=[2,4]<=[8]}".
  /// That says which devices hold parts of one value, and not whether these are of a sum, a maximum
  /// or a minimum.
  /// @throws ShardingError if the sharding is for another rank.
  std::string to_hlo_text(std::int64_t ndim, Location location = Location::current()) const;
  /// Returns a description for messages.
  std::string to_string() const;

  /// Structural equality: NamedShardings are equal if their meshes, specs and memory kinds are. See
  /// `is_equivalent_to` for equal placement.
  friend bool operator==(const Sharding& a, const Sharding& b);
  /// Hash, equal for equal shardings.
  std::size_t hash() const;

  /// The representation; for internal use.
  const internal::ShardingImpl& impl() const;
  /// For internal use.
  explicit Sharding(std::shared_ptr<const internal::ShardingImpl> impl) : impl_(std::move(impl)) {}

 protected:
  std::shared_ptr<const internal::ShardingImpl> impl_;
};

/// A sharding given by a mesh and a PartitionSpec over its axes (jax.sharding.NamedSharding). The
/// mesh may be an AbstractMesh.
/// @code
/// NamedSharding s(make_mesh({{"x", 2}, {"y", 4}}), P("x", "y"));
/// s.shard_shape({8, 16});   // {4, 4}
/// @endcode
class NamedSharding : public Sharding {
 public:
  /// A sharding over the axes of `mesh`.
  /// @throws ShardingError if the spec names an axis that the mesh lacks.
  /// @throws DuplicateSpecError if the spec names an axis twice.
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                Location location = Location::current());
  /// The same in a kind of memory; "device" is the only one.
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec, const std::string& memory_kind,
                Location location = Location::current());
  /// A spec is required: for a replicated array write P().
  NamedSharding(const Mesh& mesh, std::nullptr_t) = delete;
  /// Casts a Sharding to this class.
  /// @throws TypeError if it is of another class.
  explicit NamedSharding(const Sharding& s, Location location = Location::current());
  /// True if the sharding is a NamedSharding.
  static bool is(const Sharding& s);
  /// The mesh.
  const Mesh& mesh() const;
  /// The spec.
  const PartitionSpec& spec() const;
  /// The axes of the mesh along which devices hold the same: those that neither split a dimension
  /// nor are unreduced or reduced, in the order of the mesh.
  std::vector<std::string> replicated_axes() const;
};

/// The entire array on one device (jax.sharding.SingleDeviceSharding).
class SingleDeviceSharding : public Sharding {
 public:
  /// A sharding on this device.
  explicit SingleDeviceSharding(const Device& device, const std::string& memory_kind = "device",
                                Location location = Location::current());
  /// Casts a Sharding to this class.
  /// @throws TypeError if it is of another class.
  explicit SingleDeviceSharding(const Sharding& s, Location location = Location::current());
  /// True if the sharding is a SingleDeviceSharding.
  static bool is(const Sharding& s);
  /// The device.
  const Device& device() const;
};

/// An N-dimensional arrangement of devices: dimension i of an array is split into shape()[i] parts
/// (jax.sharding.PositionalSharding). For compatibility; prefer NamedSharding.
class PositionalSharding : public Sharding {
 public:
  /// A one-dimensional arrangement.
  /// @throws ValueError if there are no devices or a device is given twice.
  explicit PositionalSharding(std::vector<Device> devices, Location location = Location::current());
  /// The same in a kind of memory; "device" is the only one. (A template, so that
  /// `PositionalSharding(devices, {2, 4})` calls the constructor below.)
  template <class Kind>
  requires std::is_convertible_v<Kind, std::string> PositionalSharding(
      std::vector<Device> devices, Kind&& memory_kind, Location location = Location::current())
      : PositionalSharding(OneDim{}, std::move(devices),
                           std::string(std::forward<Kind>(memory_kind)), location) {}
  /// An arrangement of any rank, of devices in row-major order.
  /// @throws ValueError as above, or if there aren't as many devices as the shape has places.
  PositionalSharding(std::vector<Device> devices, const std::vector<std::int64_t>& shape,
                     const std::string& memory_kind = "device",
                     Location location = Location::current());
  /// The arrangement of a mesh's devices.
  /// @throws ValueError if the mesh is abstract or empty.
  explicit PositionalSharding(const Mesh& mesh, Location location = Location::current());
  /// True if the sharding is a PositionalSharding.
  static bool is(const Sharding& s);
  /// Casts a Sharding to this class.
  /// @throws TypeError if it is of another class.
  explicit PositionalSharding(const Sharding& s, Location location = Location::current());
  /// Shape of the arrangement.
  const std::vector<std::int64_t>& shape() const;
  /// Rank of the arrangement.
  std::int64_t ndim() const { return std::int64_t(shape().size()); }
  /// Returns the arrangement in another shape; one size may be -1.
  /// @throws ShardingError if the number of places changes.
  PositionalSharding reshape(const std::vector<std::int64_t>& shape,
                             Location location = Location::current()) const;
  /// Returns the arrangement with permuted dimensions, reversed by default.
  /// @throws ShardingError if `perm` isn't a permutation.
  PositionalSharding transpose(const std::vector<std::int64_t>& perm = {},
                               Location location = Location::current()) const;
  /// Returns an arrangement that replicates along a dimension (all by default) instead of
  /// splitting: its size becomes 1, or the dimension is removed if `keepdims` is false.
  /// @throws ShardingError if `axis` is out of range.
  PositionalSharding replicate(std::optional<std::int64_t> axis = {}, bool keepdims = true,
                               Location location = Location::current()) const;

 private:
  struct OneDim {};
  PositionalSharding(OneDim, std::vector<Device> devices, const std::string& memory_kind,
                     Location location);
};

/// An arrangement of devices and a ShardingSpec, as jax.pmap places arrays
/// (jax.sharding.PmapSharding): by default one index of one dimension per device. A mapped
/// dimension has size 1 in each device's part.
class PmapSharding : public Sharding {
 public:
  /// A sharding given by its spec.
  /// @param devices  In row-major order over the dims of `spec.mesh_mapping`.
  /// @param spec  How the dims are divided, and which dim of the devices each division is over.
  /// @param location  The line named in messages.
  /// @throws ValueError if there aren't as many devices as the spec needs, a device is given twice,
  ///   or the spec is invalid (see ShardingSpec::check).
  PmapSharding(std::vector<Device> devices, const ShardingSpec& spec,
               Location location = Location::current());
  /// Returns a sharding for arrays of this shape.
  /// @param shape  The global shape.
  /// @param sharded_dim  The dimension that is mapped over the devices; std::nullopt: replicated.
  /// @param devices  As many as the dimension's size; by default the first ones.
  /// @param location  The line named in messages.
  /// @throws ValueError if there is no such dimension or its size isn't the number of devices.
  static PmapSharding make_default(const std::vector<std::int64_t>& shape,
                                   std::optional<std::int64_t> sharded_dim = 0,
                                   std::vector<Device> devices = {},
                                   Location location = Location::current());
  /// True if the sharding is a PmapSharding.
  static bool is(const Sharding& s);
  /// Casts a Sharding to this class.
  /// @throws TypeError if it is of another class.
  explicit PmapSharding(const Sharding& s, Location location = Location::current());
  /// The devices.
  const std::vector<Device>& devices() const;
  /// How the dims are divided.
  const ShardingSpec& sharding_spec() const;
};

/// A list of devices and a sharding in HLO's text form (jax.sharding.GSPMDSharding).
class GSPMDSharding : public Sharding {
 public:
  /// A sharding such as "{devices=[2,4]<=[8]}" or "{replicated}" over these devices.
  ///
  /// With "{maximal device=N}" the entire array is on the N-th of them and num_devices() is 1.
  /// @throws ParseError if the text can't be parsed.
  /// @throws ValueError if it is for another number of devices or for a tuple.
  GSPMDSharding(std::vector<Device> devices, const std::string& hlo_sharding,
                const std::string& memory_kind = "device", Location location = Location::current());
  /// Casts a Sharding to this class.
  /// @throws TypeError if it is of another class.
  explicit GSPMDSharding(const Sharding& s, Location location = Location::current());
  /// Returns "{replicated}" over these devices.
  static GSPMDSharding get_replicated(std::vector<Device> devices,
                                      Location location = Location::current());
  /// True if the sharding is a GSPMDSharding.
  static bool is(const Sharding& s);
  /// The HLO text.
  const std::string& hlo_sharding() const;
};

/// Returns the NamedSharding on `mesh` that places arrays of rank `ndim` as `s` does, or nothing if
/// there is none.
std::optional<NamedSharding> to_named_sharding(const Sharding& s, const Mesh& mesh,
                                               std::int64_t ndim);

}  // namespace tessera

/// Shardings may be keys of unordered containers, by structural equality.
template <>
struct std::hash<tessera::Sharding> {
  /// Returns Sharding::hash().
  std::size_t operator()(const tessera::Sharding& s) const { return s.hash(); }
};
/// The same for each class of shardings.
template <>
struct std::hash<tessera::NamedSharding> : std::hash<tessera::Sharding> {};
/// The same.
template <>
struct std::hash<tessera::SingleDeviceSharding> : std::hash<tessera::Sharding> {};
/// The same.
template <>
struct std::hash<tessera::PositionalSharding> : std::hash<tessera::Sharding> {};
/// The same.
template <>
struct std::hash<tessera::PmapSharding> : std::hash<tessera::Sharding> {};
/// The same.
template <>
struct std::hash<tessera::GSPMDSharding> : std::hash<tessera::Sharding> {};
