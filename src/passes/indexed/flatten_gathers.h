// SPDX-License-Identifier: Apache-2.0
// Gathers of single elements as reads at an index that loops compute.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Gathers whose windows have no long runs of elements become gathers from an array of one dim,
/// with one index for each element of the result: elementwise in that index, which is computed from
/// the index vectors and so may be fused with what makes them. Rows that several numbers find are
/// found by one. Gathers of one window become dynamic slices; transposes of short windows become
/// part of their gathers. Returns how many.
std::size_t flatten_gathers(ir::Module* module);

}  // namespace tessera::passes
