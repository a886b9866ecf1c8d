// SPDX-License-Identifier: Apache-2.0
// Shardings as programs state them, and their conversion to partition specs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>
#include <tessera/mesh.h>
#include <tessera/partition_spec.h>
#include <tessera/sharding/parsed_spec.h>

namespace tessera {

/// The sharding of a value, or of a tuple of values, in a program (XLA's OpSharding): tiles and the
/// device of each. It is more expressive than a PartitionSpec.
struct OpSharding {
  /// What the sharding is.
  enum class Type : std::uint8_t {
    replicated,  ///< each device has the entire value
    maximal,     ///< the entire value is on `maximal_device`
    tuple,       ///< a sharding per element, in `tuple_shardings`
    other,       ///< tiles
    manual,      ///< the program is per device
    unreduced,   ///< the value is the sum of what the devices have
    unknown,     ///< not stated
  };
  /// What the devices along a trailing dim of the tiles have in common.
  enum class Subgroup : std::uint8_t { replicated, manual, unreduced };

  /// What the sharding is.
  Type type = Type::replicated;
  /// Type::other: number of tiles along each dim, then the sizes of the trailing dims that
  /// `last_tile_dims` describes.
  std::vector<std::int64_t> tile_assignment_dimensions{};
  /// Type::other: device of each tile, in row-major order.
  std::vector<std::int64_t> tile_assignment_devices{};
  /// Type::other: what the trailing dims are. `replicate_on_last_tile_dim` is the same as one
  /// Subgroup::replicated.
  std::vector<Subgroup> last_tile_dims{};
  /// Type::maximal: the device.
  std::int64_t maximal_device = 0;
  /// Type::tuple: the shardings of the elements.
  std::vector<OpSharding> tuple_shardings{};

  /// True if the devices along the last dim of the tiles have copies.
  bool replicate_on_last_tile_dim() const {
    return last_tile_dims.size() == 1 && last_tile_dims[0] == Subgroup::replicated;
  }
  /// Returns the sharding that HLO's text describes: "{devices=[2,4]<=[8]}", "{replicated}",
  /// "{{replicated}, {maximal device=3}}", ...
  /// @throws ParseError if the text isn't one.
  static OpSharding from_text(const std::string& text, Location location = Location::current());
  /// Returns HLO's text, in canonical form.
  /// @throws ShardingError if the tiles and devices don't fit each other.
  std::string to_string(Location location = Location::current()) const;
  /// Tuples are equal if their elements are, in order.
  friend bool operator==(const OpSharding&, const OpSharding&) = default;
};

/// Returns the sharding that a program states for an array of rank `ndim` split by this spec.
/// Devices are positions in the mesh.
/// @throws ShardingError if the spec is longer than the rank or names an axis that the mesh lacks.
OpSharding get_aval_sharding_proto(const PartitionSpec& spec, const Mesh& mesh, std::int64_t ndim,
                                   Location location = Location::current());
/// Returns one spec per value (a tuple, nested ones included, has several) that splits it over the
/// axes of the mesh as a program states. Entries of unsplit dims at the end are dropped. Axes along
/// which the program is per device are the spec's `manual_axes`, axes of partial sums its unreduced
/// ones.
/// @throws NotImplementedError if no spec does: devices in an order that no order of the axes
/// gives,
///   a dim split over part of an axis, the entire value on one device, or an unknown sharding.
/// @throws ShardingError if the sharding isn't over as many devices as the mesh has.
std::vector<ParsedPartitionSpec> parse_flatten_op_sharding(const OpSharding& sharding,
                                                           const Mesh& mesh,
                                                           Location location = Location::current());

/// A dim of an array of devices: its size and the distance of its neighbours in row-major order.
struct StridedDim {
  /// Size.
  std::int64_t size = 1;
  /// Distance of neighbours.
  std::int64_t stride = 1;
  friend bool operator==(const StridedDim&, const StridedDim&) = default;
};

/// Returns the row-major strides of an array with these sizes, major to minor: {12, 4, 1} for
/// {2, 3, 4}.
/// @throws ValueError if a size is less than 1 or their product doesn't fit.
std::vector<std::int64_t> strides_for_sizes(const std::vector<std::int64_t>& sizes,
                                            Location location = Location::current());
/// Returns the order of the axes, major to minor, in which a row-major array of devices with these
/// axes must be transposed to have its devices in the order of the assignment. Axes of size 1 are
/// left out.
/// @throws ValueError if the assignment isn't a permutation of the numbers below the product of the
///   sizes.
/// @throws NotImplementedError if it is no transposition of the axes.
std::vector<std::string> unflatten_array(const Mesh::Shape& named_sizes,
                                         const std::vector<std::int64_t>& assignment,
                                         Location location = Location::current());
/// Returns the dims, as few as possible, of a row-major array that transposed has the order of the
/// assignment, with their strides in that array; the most minor one first. Dims that stay adjacent
/// are one.
/// @throws NotImplementedError if the assignment is no transposition of such an array.
std::vector<StridedDim> unflatten_superdims(const std::vector<std::int64_t>& assignment,
                                            Location location = Location::current());
/// Splits dims, the most minor one first, at the dims of a row-major array with these sizes.
/// Returns them major to minor.
/// @throws NotImplementedError if a dim's bounds aren't bounds of the sizes.
std::vector<StridedDim> explode_superdims(const std::vector<std::int64_t>& sizes,
                                          const std::vector<StridedDim>& dims,
                                          Location location = Location::current());

}  // namespace tessera
