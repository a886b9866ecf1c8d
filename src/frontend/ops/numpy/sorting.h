// SPDX-License-Identifier: Apache-2.0
// Sorting of several arrays by the first.
#pragma once

#include <string>
#include <vector>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// Sorts arrays of one shape along a dim, stably, by the elements of the first one; ties by those
/// of the others among the first `keys`.
std::vector<Array> sorted_together(const std::vector<Array>& operands, std::int64_t dim,
                                   bool descending, Location location, const std::string& name,
                                   std::int64_t keys = 1);

}  // namespace tessera::frontend
