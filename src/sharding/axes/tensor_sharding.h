// SPDX-License-Identifier: Apache-2.0
// The compiler's own form of a sharding: dims → mesh axes (Shardy's TensorShardingAttr).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/sharding/axes/logical_mesh.h"

namespace tessera {

struct DimSharding {
  IndexList axes;     ///< indices into the mesh's axes, major to minor
  bool open = false;  ///< propagation may append axes
  int priority = 0;
  friend bool operator==(const DimSharding&, const DimSharding&) = default;
};

/// What joins the parts that devices hold along unreduced axes. `other`: something that no text can
/// say, as products; within the compiler only.
enum class Reduction : std::uint8_t { sum, max, min, other };
/// "sum", "max" or "min"
const char* to_string(Reduction reduction);

/// How one array is sharded over a mesh. Each axis occurs at most once in dims, replicated,
/// unreduced and manual together.
struct TensorSharding {
  enum class Kind : std::uint8_t {
    axes,     ///< split as `dims` states; without any axes replicated
    maximal,  ///< entirely on one device
    unknown,
  };
  Kind kind = Kind::axes;
  MeshRef mesh;  ///< null: replicated on any mesh
  std::vector<DimSharding> dims;
  IndexList replicated;     ///< axes that propagation must not put on any dim
  IndexList unreduced;      ///< axes over which the value is a partial sum, or another reduction
  IndexList manual;         ///< axes along which the program is per device
  std::int64_t device = 0;  ///< the device of a maximal sharding
  Reduction reduction = Reduction::sum;  ///< over the unreduced axes; means nothing without any
  int shard_group = -1;                  ///< shard_as / shard_like group; -1: none
  bool shard_like = false;

  static TensorSharding replicated_on(MeshRef mesh, std::int64_t rank);
  /// All dims open and unsplit: propagation chooses everything.
  static TensorSharding open_on(MeshRef mesh, std::int64_t rank);
  static TensorSharding manual_on(MeshRef mesh, std::int64_t rank);
  static TensorSharding maximal_on(std::int64_t device);

  std::int64_t rank() const { return std::int64_t(dims.size()); }
  /// Number of parts of one dim.
  std::int64_t shards(std::int64_t dim) const;
  Dims shards() const;
  /// Whether each dim of an array is a multiple of its number of shards.
  bool splits_evenly(std::span<const std::int64_t> array_dims) const;
  /// No dim is split and nothing is unreduced: all devices have copies.
  bool is_replicated() const;
  bool is_manual() const { return !manual.empty(); }
  bool fully_open() const;
  /// True if it is among the axes of some dim.
  bool uses_axis(int axis) const;
  /// ceil(dim / shards) per dim.
  Dims shard_dims(const Dims& global) const;
  /// The index of a device's shard along each dim.
  Dims shard_coordinates(std::int64_t device) const;
  /// Drops open flags and priorities.
  TensorSharding closed() const;
  /// Same axes on the same dims of the same mesh; open flags and priorities are ignored.
  bool same_placement(const TensorSharding& other) const;
  /// The same sharding with axes of `refined`, a refinement of `mesh`. A null mesh becomes
  /// `refined`.
  TensorSharding on(const MeshRef& refined) const;

  /// sdy's text: `#sdy.sharding<@mesh, [{"x", "y":(1)2}, {?}], replicated={"w"}>`.
  std::string to_string() const;
  /// For users: `P("x", ("y","z"), None)`, "replicated", "device 3".
  std::string to_spec_string() const;
  friend bool operator==(const TensorSharding& a, const TensorSharding& b);
};

}  // namespace tessera
