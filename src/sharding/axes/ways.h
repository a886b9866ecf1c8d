// SPDX-License-Identifier: Apache-2.0
// How many parts some axes of a mesh make together.
#pragma once

#include <cstdint>

#include "src/base/small_vector.h"
#include "src/sharding/axes/logical_mesh.h"

namespace tessera {

/// Product of the axes' sizes.
inline std::int64_t ways_of(const LogicalMesh& mesh, const IndexList& axes) {
  std::int64_t n = 1;
  for (const int a : axes) n *= mesh.axes[std::size_t(a)].size;
  return n;
}

}  // namespace tessera
