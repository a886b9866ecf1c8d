// SPDX-License-Identifier: Apache-2.0
// Runs of mesh axes that move together: searches over axes shrink by them.
#pragma once

#include <vector>

#include "src/base/small_vector.h"

namespace tessera::spmd::reshard {

/// Splits `axes` in runs that stand together, in one order, in each of `lists` where they stand at
/// all, and are in the same of `sets`.
std::vector<IndexList> axis_groups(IndexList axes, const std::vector<IndexList>& lists,
                                   const std::vector<IndexList>& sets);

}  // namespace tessera::spmd::reshard
