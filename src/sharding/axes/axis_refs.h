// SPDX-License-Identifier: Apache-2.0
// Axes and sub-axes named in a text, before a mesh is refined to have them.
#pragma once

#include <string>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

struct AxisRef {
  std::string name;
  std::int64_t pre = 1;
  std::int64_t size = 0;  ///< 0: the whole axis
};

/// A sharding in terms of named axes.
struct NamedAxesSharding {
  struct Dim {
    std::vector<AxisRef> axes;
    bool open = false;
    int priority = 0;
  };
  std::vector<Dim> dims;
  std::vector<AxisRef> replicated, unreduced, manual;
};

/// Refines the mesh as far as the sub-axes need. ShardingError if an axis isn't there, a sub-axis
/// doesn't divide it, two of them don't nest, or one stands twice.
TensorSharding resolve_axes(const NamedAxesSharding& s, const MeshRef& mesh);

}  // namespace tessera
