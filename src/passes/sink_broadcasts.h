// SPDX-License-Identifier: Apache-2.0
// Work on what is the same along a dim, done once.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Moves broadcasts behind elementwise ops all of whose operands are the same along a dim, behind
/// reductions of other dims, and behind what only moves elements, so that these see the array
/// without the dim. Returns how many.
std::size_t sink_broadcasts(ir::Module* module);

}  // namespace tessera::passes
