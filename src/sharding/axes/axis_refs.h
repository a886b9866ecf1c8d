// SPDX-License-Identifier: Apache-2.0
// Axes and sub-axes named in a text, before a mesh is refined to have them.
#pragma once

#include <string>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"
#include "src/sharding/axes/text_cursor.h"

namespace tessera {

struct AxisRef {
  std::string name;
  std::int64_t pre = 1;
  std::int64_t size = 0;  ///< 0: the full axis
};

/// `{"x", "y":(1)2}`, the names in double or, if those are allowed, single quotes; with `open` also
/// `{"x", ?}`, which sets it.
std::vector<AxisRef> parse_axis_list(TextCursor& in, bool* open, bool single_quotes);

/// A sharding in terms of named axes.
struct NamedAxesSharding {
  struct Dim {
    std::vector<AxisRef> axes;
    bool open = false;
    int priority = 0;
  };
  std::vector<Dim> dims;
  std::vector<AxisRef> replicated, unreduced, manual;
  Reduction reduction = Reduction::sum;
};

/// ShardingError if the axes aren't written in the one form that Shardy takes: a sub-axis is larger
/// than 1 and smaller than its axis, neighbours that make up one axis or sub-axis are written as
/// that, and replicated and unreduced axes stand in the order of the mesh.
void check_axis_forms(const NamedAxesSharding& s, const LogicalMesh& mesh);

/// Refines the mesh as far as the sub-axes require. ShardingError if the mesh lacks an axis, a
/// sub-axis doesn't divide its axis, two sub-axes don't nest, or an axis occurs twice.
TensorSharding resolve_axes(const NamedAxesSharding& s, const MeshRef& mesh);

}  // namespace tessera
