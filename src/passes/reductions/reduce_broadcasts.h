// SPDX-License-Identifier: Apache-2.0
// Reductions of what is the same along a dim.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reductions along dims that a broadcast made, as derivatives of means have them, need no loop
/// over these: a sum is a product with their size, and the largest of equal numbers is that number.
/// Of floats of 32 and 64 bits, whose sums this rounds once, and of integers. Returns how many.
std::size_t reduce_broadcasts(ir::Module* module);

}  // namespace tessera::passes
