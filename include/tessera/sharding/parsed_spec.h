// SPDX-License-Identifier: Apache-2.0
// Parsed partition specs and maps from mesh axes to dims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/error.h>
#include <tessera/mesh.h>
#include <tessera/partition_spec.h>

namespace tessera {

/// How far the partitions of a ParsedPartitionSpec differ from the spec that the user wrote, so
/// that messages never show a spec that nobody wrote as if the user had.
enum class SpecSync : std::uint8_t {
  out_of_sync = 0,  ///< anything may differ; axes were inserted
  dim_permute = 1,  ///< dims were moved or inserted, but no axis was added
  in_sync = 2,      ///< as the user wrote it
};
/// Returns "OUT_OF_SYNC", "DIM_PERMUTE" or "IN_SYNC".
std::string to_string(SpecSync sync);

/// A PartitionSpec in uniform form, one list of axes per dim, together with the spec that the user
/// wrote (JAX's ParsedPartitionSpec). Transformations that add dims edit the partitions; messages
/// show the user's spec.
/// @code
/// auto parsed = ParsedPartitionSpec::from_user_input(P("x", nullptr), "in_shardings");
/// auto batched = parsed.insert_axis_partitions(0, {"data"});
/// batched.partitions();           // ('data'), ('x'), ()
/// batched.get_partition_spec();   // PartitionSpec('data', 'x', None)
/// @endcode
class ParsedPartitionSpec {
 public:
  /// The axes of one dim, major to minor.
  using Axes = std::vector<std::string>;

  /// REPLICATED: what None is parsed to.
  ParsedPartitionSpec() = default;
  /// Partitions and the spec that they come from; nothing for None.
  ParsedPartitionSpec(std::optional<PartitionSpec> user_spec, std::vector<SpecEntry> partitions,
                      SpecSync sync = SpecSync::in_sync);
  /// Parses what a user wrote; nothing for None.
  /// @param entry  The spec.
  /// @param arg_name  Name of the argument in messages.
  /// @param allow_unconstrained  Whether UNCONSTRAINED may stand in it.
  /// @param location  The line named in messages.
  /// @throws DuplicateSpecError if an axis stands twice in it.
  /// @throws ValueError if UNCONSTRAINED stands in it and isn't allowed.
  static ParsedPartitionSpec from_user_input(const std::optional<PartitionSpec>& entry,
                                             const std::string& arg_name,
                                             bool allow_unconstrained = false,
                                             Location location = Location::current());

  /// One entry per dim.
  const std::vector<SpecEntry>& partitions() const { return partitions_; }
  /// How far the partitions differ from the user's spec.
  SpecSync sync() const { return sync_; }
  /// Returns the user's spec; nothing for None.
  /// @throws ValueError if the partitions aren't in sync with it.
  const std::optional<PartitionSpec>& user_spec(Location location = Location::current()) const;
  /// Returns the user's spec if the partitions are in sync with it to at least this level.
  /// @throws ValueError if they aren't.
  const std::optional<PartitionSpec>& unsynced_user_spec(
      SpecSync min_sync, Location location = Location::current()) const;
  /// Returns the user's spec if it is in sync, otherwise one made of the partitions. It has the
  /// unreduced and reduced axes of the user's.
  PartitionSpec get_partition_spec() const;
  /// Returns a copy with another dim before dim `dim`, over these axes. Missing dims before it are
  /// added. The sync level becomes DIM_PERMUTE without axes, else OUT_OF_SYNC; it never rises.
  /// @throws ValueError if `dim` is negative.
  /// @throws DuplicateSpecError if an axis splits another dim already.
  ParsedPartitionSpec insert_axis_partitions(std::int64_t dim, const Axes& axes,
                                             Location location = Location::current()) const;
  /// Axes along which a program is per device, for shardings read from a program
  /// (`parse_flatten_op_sharding`).
  const std::vector<std::string>& manual_axes() const { return manual_axes_; }
  /// Returns a copy with these manual axes.
  /// @throws DuplicateSpecError if one of them splits a dim.
  ParsedPartitionSpec with_manual_axes(std::vector<std::string> axes,
                                       Location location = Location::current()) const;

  /// Number of dims with an entry.
  std::size_t size() const { return partitions_.size(); }
  /// Entry of dim i.
  /// @throws ValueError if there is none.
  const SpecEntry& operator[](std::size_t i) const;
  /// Iterates over the entries.
  auto begin() const { return partitions_.begin(); }
  /// End of the entries.
  auto end() const { return partitions_.end(); }
  /// Returns for example "<partitions=(('x'), ()) sync=IN_SYNC>".
  std::string to_string() const;
  /// Hash of partitions and sync level, as JAX's.
  std::size_t hash() const;
  /// Partitions, the user's spec and the sync level are equal.
  friend bool operator==(const ParsedPartitionSpec&, const ParsedPartitionSpec&) = default;

 private:
  std::optional<PartitionSpec> user_spec_;
  std::vector<SpecEntry> partitions_;
  SpecSync sync_ = SpecSync::in_sync;
  std::vector<std::string> manual_axes_;
};

/// The dim that each mesh axis splits, in the order of the dims and of the axes in them (JAX's
/// ArrayMapping).
using ArrayMapping = std::vector<std::pair<std::string, std::int64_t>>;

/// Returns the dim of each axis of a spec: {x: 0, y: 0, z: 2} for P(axes("x", "y"), nullptr, "z").
/// UNCONSTRAINED entries have no axes.
/// @throws DuplicateSpecError if an axis stands twice in the spec.
ArrayMapping get_array_mapping(const PartitionSpec& spec, Location location = Location::current());
/// The same for a parsed spec.
ArrayMapping get_array_mapping(const ParsedPartitionSpec& spec);
/// Returns the spec of a map from axes to dims; dims without axes up to the last one with axes are
/// None. The inverse of get_array_mapping, except for None at the end.
/// @throws ValueError if a dim is negative or larger than 65535.
/// @throws DuplicateSpecError if an axis stands twice in the map.
PartitionSpec array_mapping_to_axis_resources(const ArrayMapping& mapping,
                                              Location location = Location::current());
/// Returns the spec of the partitions, without None at the end, whatever the user wrote.
PartitionSpec get_single_pspec(const ParsedPartitionSpec& spec);

/// Whether shapes are those of one process's part of arrays or those of entire arrays.
enum class PositionalSemantics : std::uint8_t { local, global };

/// Returns the global shape of an array of which this process holds a part of the given shape: the
/// size of each dim is multiplied by the number of processes along its axes. On a mesh of this
/// process alone it is the same shape.
/// @throws ValueError if an axis isn't in the mesh or a dim isn't in the shape, or as
///   Mesh::local_mesh.
std::vector<std::int64_t> local_to_global(PositionalSemantics semantics, const Mesh& mesh,
                                          const ArrayMapping& mapping,
                                          const std::vector<std::int64_t>& shape,
                                          Location location = Location::current());
/// Returns the shape of this process's part of an array of the given global shape.
/// @throws IndivisibleError if a dim can't be divided among the processes.
/// @throws ValueError as local_to_global.
std::vector<std::int64_t> global_to_local(PositionalSemantics semantics, const Mesh& mesh,
                                          const ArrayMapping& mapping,
                                          const std::vector<std::int64_t>& shape,
                                          Location location = Location::current());

}  // namespace tessera

/// Parsed specs may be keys of unordered containers.
template <>
struct std::hash<tessera::ParsedPartitionSpec> {
  /// Returns ParsedPartitionSpec::hash().
  std::size_t operator()(const tessera::ParsedPartitionSpec& spec) const { return spec.hash(); }
};
