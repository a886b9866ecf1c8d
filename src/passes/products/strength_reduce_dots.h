// SPDX-License-Identifier: Apache-2.0
// Dots that are multiplications.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Outer products and products of two vectors become multiplications (and a sum), which are
/// fused with what is around them. Returns how many.
std::size_t strength_reduce_dots(ir::Module* module);

}  // namespace tessera::passes
