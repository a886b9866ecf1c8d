// SPDX-License-Identifier: Apache-2.0
// Composed views whose pieces and padding take turns along a dim: what is chosen by a coordinate.
// Also called: periodic or interleaved layouts.
#pragma once

#include <vector>

#include "src/codegen/kernels/moves/composed_view.h"

namespace tessera::codegen {

struct ViewTurns {
  struct Turn {
    std::int64_t begin = 0, end = 0;  ///< along `dim`
    ComposedView part;                ///< of all dims, but asked for in this turn alone
  };
  int dim = -1;             ///< -1: there are none
  std::vector<Turn> turns;  ///< in order; elsewhere is padding
};

/// Example, two rows that are stacked, each of two scalars: along dim 0 two turns, the part of each
/// a view of two pieces which take turns along dim 1.
ViewTurns turns_of(const ComposedView& m);

}  // namespace tessera::codegen
