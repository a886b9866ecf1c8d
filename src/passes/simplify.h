// SPDX-License-Identifier: Apache-2.0
// Rewrites of one or two instructions that never change the bits of a result, and dead code.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Ops that do nothing, elements of tuples just made, reshapes of reshapes, ... Returns how many.
std::size_t simplify(ir::Module* module);
/// Instructions and computations that nothing needs. Returns how many instructions.
std::size_t eliminate_dead(ir::Module* module);

}  // namespace tessera::passes
