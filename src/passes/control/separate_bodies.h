// SPDX-License-Identifier: Apache-2.0
// Loops and branches that share no bodies.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Gives each loop and branch bodies that no other one runs, so that one's shardings don't bind
/// another's. Does nothing if that made more than so many instructions. Returns how many copies.
std::size_t separate_bodies(ir::Module* module, std::size_t max_instructions);

}  // namespace tessera::passes
