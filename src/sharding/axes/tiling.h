// SPDX-License-Identifier: Apache-2.0
// HLO's text form of shardings (OpSharding) and its conversion to and from mesh axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/small_vector.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

/// `{replicated}`, `{maximal device=3}`, `{manual}`, `{unknown}`,
/// `{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}`, `{devices=[2,2]0,2,1,3}`, ...
struct Tiling {
  enum class Kind : std::uint8_t { replicated, maximal, manual, unknown, unreduced, tiled };
  enum class Subgroup : std::uint8_t { replicated, manual, unreduced };
  Kind kind = Kind::replicated;
  std::int64_t device = 0;
  Dims tile;       ///< all tile dims, trailing subgroup dims included
  Dims reshape;    ///< iota form: <=[reshape]T(perm); empty when `devices` is used
  IndexList perm;  ///< empty = identity
  std::vector<std::int64_t> devices;  ///< explicit list, row-major over tile
  std::vector<Subgroup> subgroups;    ///< kinds of the trailing tile dims
  int shard_group = -1;
  bool shard_like = false;

  std::int64_t rank() const { return std::int64_t(tile.size() - subgroups.size()); }
  std::int64_t num_devices() const;
  /// Whether devices hold parts that something, most often a sum, is to join.
  bool has_partial_values() const;
  /// Device of each tile, row-major.
  std::vector<std::int64_t> device_list() const;
  /// The canonical form, which is the same for all equivalent tilings: iota form if the devices
  /// allow it, with as few dims as possible; subgroups of one kind merged, in the order manual,
  /// unreduced, replicated, and none of size 1; the copies of a tile in ascending order. A tiling
  /// that splits no dim and has at most one subgroup becomes one of the plain kinds.
  Tiling canonical() const;
  /// Text of the canonical form, with `last_tile_dim_replicate` for one replicated subgroup.
  std::string to_string() const;
  friend bool operator==(const Tiling&, const Tiling&) = default;
};

/// Checks what depends on the number of devices: the tiling must cover devices 0..n-1, each once.
/// ShardingError otherwise.
void check_tiling(const Tiling& t, std::int64_t num_devices);

/// Reads one sharding or a tuple of them ("{{..},{..}}"), braces included. ParseError with the
/// position.
std::vector<Tiling> parse_tilings(std::string_view text, bool* is_tuple = nullptr);

/// Axes → tiling, in canonical form. Open flags, priorities and explicitly replicated axes are
/// lost.
Tiling to_tiling(const TensorSharding& s);

/// Tilings → axes on one mesh, refined enough to express all of them. If `preferred` is given and
/// its device order fits, its axes (refined if needed) are used. A tiling whose device list isn't a
/// permutation of axes of the common mesh gets a separate mesh with device_ids. Axes that aren't
/// those of the preferred mesh are named "axis_0", "axis_1", ... ShardingError if a tiling doesn't
/// fit its rank or the number of devices. `ranks[i]` is the rank of the i-th value. Replicated
/// shardings have a null mesh only if nothing is tiled and there is no preferred mesh.
std::vector<TensorSharding> from_tilings(std::span<const Tiling> tilings,
                                         std::span<const std::int64_t> ranks,
                                         std::int64_t num_devices, MeshRef preferred = nullptr);

}  // namespace tessera
