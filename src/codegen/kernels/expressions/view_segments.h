// SPDX-License-Identifier: Apache-2.0
// Composed views whose pieces and padding are segments along a dim: what is chosen by a coordinate.
// Also called: periodic or interleaved layouts.
#pragma once

#include <vector>

#include "src/codegen/kernels/expressions/composed_view.h"

namespace tessera::codegen {

struct ViewSegments {
  struct Segment {
    std::int64_t begin = 0, end = 0;  ///< along `dim`
    ComposedView part;                ///< of all dims, but asked for in this segment alone
  };
  int dim = -1;                   ///< -1: there are none
  std::vector<Segment> segments;  ///< in order; elsewhere is padding
};

/// Example, two rows that are stacked, each of two scalars: along dim 0 two segments, the part of
/// each a view of two pieces which are segments along dim 1.
ViewSegments segments_of(const ComposedView& m);

}  // namespace tessera::codegen
