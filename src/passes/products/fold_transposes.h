// SPDX-License-Identifier: Apache-2.0
// Dots and the transposes around them.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Dots that are only used transposed become dots of their operands the other way round, where that
/// is the required order of dims (of integers only what is sent or returned), or leaves the last
/// dim last: its elements are moved together then, or not at all. Returns how many.
std::size_t swap_transposed_dots(ir::Module* module);
/// Dots of transposed arrays become dots of the arrays, where no kernel would move them. Returns
/// how many operands.
std::size_t fold_transposes(ir::Module* module);
/// Transposes that only dots read leave the last dim last, where these take that as well: what is
/// moved are rows then, not single elements. Returns how many.
std::size_t keep_last_dims(ir::Module* module);

}  // namespace tessera::passes
