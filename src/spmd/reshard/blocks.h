// SPDX-License-Identifier: Apache-2.0
// Runs of mesh axes that need not be told apart: searches over axes shrink by them.
#pragma once

#include <vector>

namespace tessera::spmd::reshard {

/// Splits `axes` in runs that stand together, in one order, in each of `lists` where they stand at
/// all, and are in the same of `sets`.
std::vector<std::vector<int>> moving_together(std::vector<int> axes,
                                              const std::vector<std::vector<int>>& lists,
                                              const std::vector<std::vector<int>>& sets);

}  // namespace tessera::spmd::reshard
