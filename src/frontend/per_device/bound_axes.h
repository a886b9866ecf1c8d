// SPDX-License-Identifier: Apache-2.0
// The axes that a collective names: of the mesh of per-device code, or of a vmap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/collectives.h>

#include "src/frontend/trace/trace.h"

namespace tessera::frontend {

/// The axes of a collective on the mesh that is bound, or one axis of a batch.
struct BoundAxes {
  MeshRef mesh;  ///< null for an axis of a batch
  VaryingAxes names;
  std::vector<int> axes;
  std::int64_t size = 1;  ///< of one group
  ir::DeviceGroups groups;

  /// The value's type, with the axes.
  VaryingAxes with(const VaryingAxes& varying) const {
    VaryingAxes out = varying;
    out.insert(names.begin(), names.end());
    return out;
  }
};

/// ValueError if one isn't bound, or groups don't fit; NotImplementedError for groups of entries of
/// a batch, and for several axes one of which is a batch's.
BoundAxes bound_axes(const std::string& op, const AxisNames& names, Location location,
                     const AxisIndexGroups& groups = {});
/// The names one by one, if there are several and one is a batch's: an op over all of them is one
/// over each. Otherwise empty.
std::vector<AxisNames> one_by_one(const std::string& op, const AxisNames& names, Location location);

ir::CollectiveAttrs attributes(const BoundAxes& axes, Dims dims);

}  // namespace tessera::frontend
