// SPDX-License-Identifier: Apache-2.0
// Gathers that are selects.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Gathers of each element from one of a few stacked arrays become selects. Returns how many.
std::size_t strength_reduce_gathers(ir::Module* module);

}  // namespace tessera::passes
