// SPDX-License-Identifier: Apache-2.0
// The sharding that is part of a value's type: what explicit mode knows of it while tracing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/sharding.h>

#include "src/base/arrays/shape.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::frontend {

/// Which Explicit axes of a mesh split which dim (JAX's sharding in types). Auto and Manual axes
/// don't stand in types.
///
/// Without a mesh nothing is stated: a value that goes with any other, such as a constant.
struct ShardingType {
  using AxisList = std::vector<std::string>;  ///< major to minor

  Mesh mesh;
  std::vector<AxisList> dims;          ///< one per dim of the value, if there is a mesh
  std::vector<std::string> unreduced;  ///< sorted: the value is a partial sum over these
  std::vector<std::string> reduced;    ///< sorted: its cotangent is a partial sum over these
  /// What joins the parts over the unreduced axes; means nothing without any.
  UnreducedKind kind = UnreducedKind::sum;

  explicit operator bool() const { return !mesh.empty(); }
  bool is_replicated() const;
  /// The value is a partial maximum or minimum.
  bool is_extremum() const { return !unreduced.empty() && kind != UnreducedKind::sum; }
  /// The same of values that aren't partial.
  ShardingType whole() const;
  /// Number of parts of one dim.
  std::int64_t parts(std::size_t dim) const;

  /// Nothing split, on a mesh.
  static ShardingType replicated(const Mesh& mesh, std::size_t rank);
  /// Of a value that is sharded so: empty unless it is a NamedSharding on a mesh with Explicit
  /// axes.
  static ShardingType of(const Sharding& sharding, std::size_t rank);
  /// Of a spec on a mesh with Explicit axes.
  static ShardingType of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank);

  /// One entry per dim, with the unreduced and reduced axes.
  PartitionSpec spec() const;
  /// Dims that Auto axes may split, too, are open.
  TensorSharding constraint() const;
  /// The type of the tangent: the same, but that of a partial maximum or minimum is whole.
  ShardingType tangent() const { return is_extremum() ? whole() : *this; }
  /// The type of the cotangent: of the tangent's, unreduced and reduced axes change places.
  ShardingType cotangent() const;
  /// Part of the keys of traced functions.
  std::string key() const;

  friend bool operator==(const ShardingType& a, const ShardingType& b);
};

/// "a partial sum", "a partial maximum" or "a partial minimum".
std::string partial_text(UnreducedKind kind);
/// What a reshard to a spec without unreduced axes does to the parts: "adds up" or "joins".
const char* joins_text(UnreducedKind kind);

/// `f32[8@x,4@(y,z)]{V:w,U:x,R:y}`: shape and sharding as JAX prints types; `U_max:x` are parts of
/// a maximum. `varying`: axes over which a value varies, in code per device.
std::string type_text(const Shape& shape, const ShardingType& type,
                      const std::vector<std::string>& varying = {});

}  // namespace tessera::frontend
