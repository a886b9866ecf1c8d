// SPDX-License-Identifier: Apache-2.0
// Dots and the transposes around them.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Dots that are only read transposed become dots of their operands the other way round, where that
/// is the required order of dims and they are sent or returned, or leaves the last dim last: its
/// elements are moved together then, or not at all. Returns how many.
std::size_t swap_transposed_dots(ir::Module* module);
/// Dots of transposed arrays become dots of the arrays, where no kernel would move them. Returns
/// how many operands.
std::size_t fold_transposes(ir::Module* module);

}  // namespace tessera::passes
