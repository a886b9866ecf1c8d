// SPDX-License-Identifier: Apache-2.0
// Gathers of elements at computed positions.
#pragma once

#include <string>
#include <vector>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// Integer arrays broadcast together, in one dtype of 32 or 64 bits.
std::vector<Array> index_arrays(const std::string& op, const std::vector<Array>& arrays,
                                Location location);
/// The positions, with negative ones counted from the end of a dim of size `size`.
Array from_the_end(const Array& positions, std::int64_t size, Location location);
/// x at positions[i] along dims[i] (one shape, ascending dims). The indexed dims are removed; the
/// dims of the positions follow the first `before` remaining dims. Positions are clamped.
Array gathered(const Array& x, const std::vector<Array>& positions, const Dims& dims,
               std::int64_t before, Location location, const std::string& name);

}  // namespace tessera::frontend
