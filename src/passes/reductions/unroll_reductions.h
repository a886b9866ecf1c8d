// SPDX-License-Identifier: Apache-2.0
// Reductions of a few arrays that were stacked for them, and of a few numbers in loops.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reductions along the dim in which a few arrays are stacked become the reducer's ops on those
/// arrays, so that the stack is never materialised: argmax(stack([a, b])) becomes selects. Within
/// loops, reductions of a few elements are unrolled, too, and fuse with the loop's code. Returns
/// how many.
std::size_t unroll_reductions(ir::Module* module);

}  // namespace tessera::passes
