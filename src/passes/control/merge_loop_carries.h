// SPDX-License-Identifier: Apache-2.0
// Loop carries that are equal or not needed.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// What loops carry twice, or carry for nobody: arrays that are equal before the loop and in each
/// trip become one (as of scans that save one value several times for their gradients), and those
/// go that only their own next value is computed from. Returns how many arrays fewer are carried.
std::size_t merge_loop_carries(ir::Module* module);

}  // namespace tessera::passes
