// SPDX-License-Identifier: Apache-2.0
// Cumulative reductions as ops that have derivatives.
#pragma once

#include <span>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// Along which dim, and whether from the last element on.
struct ScanDim {
  std::size_t dim = 0;
  bool reverse = false;
};

/// What the reducer gives for all elements up to each, in the order of the dim (reverse: for each
/// and all after it). Neighbours are combined in pairs, and these again, so that each level is half
/// as long as the one before: where the dim is split over devices, only short arrays are exchanged.
///
///     scan(x) at odd places   = scan(x[0::2] + x[1::2])
///             at even places  = the odd one before + x[0::2]
std::vector<ir::Instruction*> scan_by_pairs(ir::Builder& b, const ir::Computation& reducer,
                                            const std::vector<ir::Instruction*>& x, ScanDim along);

}  // namespace tessera::transforms
