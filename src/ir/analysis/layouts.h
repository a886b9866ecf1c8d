// SPDX-License-Identifier: Apache-2.0
// Layouts say in which order an array's dims lie in memory. Values here are always row-major, so a
// layout matters to one operation only: bitcast, which keeps the bytes in memory as they are.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// The dims of an array from the slowest to the fastest in memory.
Dims memory_order(const Shape& array);
/// `dims` taken in that order.
Dims permute_dims(const Dims& dims, const Dims& order);
Dims inverse_order(const Dims& order);
/// begin, begin + 1, ... end - 1.
Dims consecutive_dims(std::int64_t begin, std::int64_t end);
/// Whether a bitcast does more than renumber the elements in row-major order.
bool depends_on_layout(const Instruction& bitcast);

/// Writes each bitcast that depends on a layout as transposes and a bitcast of row-major arrays,
/// and drops the layouts of all other instructions but custom calls, parameters and the entry's
/// result. Returns the number of instructions changed.
std::size_t normalize_layouts(Module* module);

}  // namespace tessera::ir
