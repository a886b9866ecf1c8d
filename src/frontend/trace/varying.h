// SPDX-License-Identifier: Apache-2.0
// Per-device code: the axes that it may name, and over which of them values may vary.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <tessera/mesh.h>

#include "src/ir/analysis/varying_axes.h"
#include "src/sharding/axes/logical_mesh.h"

namespace tessera::frontend {

using ir::VaryingAxes;

/// {'x', 'y'}
std::string axes_text(const VaryingAxes& axes);
/// 'x', or ('x', 'y'): as written in a call of a collective.
std::string as_argument(const VaryingAxes& axes);
/// The axes of `a` that aren't in `b`.
VaryingAxes without(const VaryingAxes& a, const VaryingAxes& b);

/// The per-device code of one shard_map or partition callback.
struct ManualScope {
  /// The program's mesh, on which groups of devices are defined.
  MeshRef mesh;
  /// The axes that collectives may name, including those of enclosing scopes, in the mesh's order.
  std::vector<std::string> axes;
  /// For shard_map, the mesh as the user passed it; otherwise empty.
  Mesh user_mesh;
  /// Whether to check that values are equal on devices where the user states it.
  bool check_vma = false;

  bool binds(const std::string& axis) const;
  /// Part of the keys of traced functions.
  std::string to_string() const;
};

/// A carried value of a loop, or the result of a branch, that varies over too few axes.
struct VaryingMismatch {
  std::string what;  ///< "carry[0]", "result 1 of branch0"
  VaryingAxes lacks;
};
/// "applying pcast(..., 'x') to carry[0]; applying ..."
std::string pcast_advice(const std::vector<VaryingMismatch>& list, const std::string& where);

}  // namespace tessera::frontend
