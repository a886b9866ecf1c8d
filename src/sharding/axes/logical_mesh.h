// SPDX-License-Identifier: Apache-2.0
// Meshes as the compiler sees them: named axes over logical device numbers, no devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/small_vector.h"
#include "src/sharding/axes/device_ids.h"

namespace tessera {

/// An axis, or the sub-axis "name:(pre)size" of a named axis, where `pre` is the product of the
/// sizes of the more major sub-axes: axis "x" of size 8 may be refined into x:(1)2, x:(2)2, x:(4)2.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  std::int64_t pre = 1;
  std::int64_t full = 1;  ///< size of the full named axis

  bool is_full() const { return size == full; }
  /// "x" or "x:(2)2"
  std::string to_string() const;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Position p of the row-major grid of axes is logical device `device_ids[p]` (p itself if empty).
/// Shardings name axes by their index here. Sub-axes are axes of a refined mesh, so that two axes
/// are always equal or disjoint.
struct LogicalMesh {
  std::string name = "mesh";
  std::vector<MeshAxis> axes;
  DeviceIds device_ids;

  std::int64_t num_devices() const;
  /// Row-major strides of the axes, in positions.
  Dims strides() const;
  std::int64_t device_at(std::int64_t position) const {
    return device_ids.empty() ? position : device_ids[std::size_t(position)];
  }
  /// Inverse of device_at.
  std::int64_t position_of(std::int64_t device) const;
  /// Coordinate of a device along one axis.
  std::int64_t coordinate(std::int64_t device, int axis) const;
  /// Index of an axis that isn't a sub-axis; -1 if there is none of that name.
  int find(const std::string& axis_name) const;
  friend bool operator==(const LogicalMesh&, const LogicalMesh&) = default;
};
using MeshRef = std::shared_ptr<const LogicalMesh>;

MeshRef make_logical_mesh(std::vector<std::pair<std::string, std::int64_t>> axes,
                          DeviceIds device_ids = {}, std::string name = "mesh");
/// Splits the axes. `pieces[i]` are the sizes, major to minor, of the pieces of axis i; empty: not
/// split.
MeshRef refine(const MeshRef& mesh, const std::vector<Dims>& pieces);
/// Splits every axis into prime factors.
MeshRef refine_to_primes(const MeshRef& mesh);
/// A refinement of both, if they have the same named axes and device order (see refine); null if
/// there is none, as for cuts 2 and 3 of an axis of 6.
MeshRef common_refinement(const MeshRef& a, const MeshRef& b);
/// Whether both have the same named axes, sizes and device order, however refined.
bool same_mesh(const MeshRef& a, const MeshRef& b);

}  // namespace tessera
