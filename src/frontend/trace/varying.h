// SPDX-License-Identifier: Apache-2.0
// Per-device code: which axes it may name, and over which of them a value may differ.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <tessera/mesh.h>

#include "src/sharding/axes/logical_mesh.h"

namespace tessera::frontend {

/// Names of the axes over which the devices' values may differ.
using VaryingAxes = std::set<std::string>;

/// {'x', 'y'}
std::string axes_text(const VaryingAxes& axes);
/// 'x', or ('x', 'y'): as the names are given to a collective.
std::string as_argument(const VaryingAxes& axes);
/// Those of `a` that `b` lacks.
VaryingAxes without(const VaryingAxes& a, const VaryingAxes& b);

/// The per-device code of one shard_map or partition callback.
struct ManualScope {
  /// That of the whole program: groups of devices are made on it.
  MeshRef mesh;
  /// The axes that collectives may name, in the mesh's order; those of scopes around included.
  std::vector<std::string> axes;
  /// Of shard_map, its axes as the user gave them; else empty.
  Mesh user_mesh;
  /// Values are checked to be equal where the user says so.
  bool check_vma = false;

  bool binds(const std::string& axis) const;
  /// Part of the keys of traced functions.
  std::string to_string() const;
};

/// What a loop carries, or a branch returns.
struct VaryingMismatch {
  std::string what;  ///< "carry[0]", "result 1 of branch0"
  VaryingAxes lacks;
};
/// "applying pcast(..., 'x') to carry[0]; applying ..."
std::string advice(const std::vector<VaryingMismatch>& list, const std::string& where);

}  // namespace tessera::frontend
