// SPDX-License-Identifier: Apache-2.0
// Several trips of a loop as one.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::ir {

/// Has a loop that runs `trips` times do `times` trips at once, in a new loop that counts by itself.
/// What is left over stays with the old loop, which goes on from there; if nothing is left, it is
/// gone. The loop must carry a tuple whose elements are known (WhileView::has_separate_carries).
/// Returns the new loop. The order is restored, what is dead is removed.
Instruction* unroll_loop(Instruction* loop, std::int64_t trips, std::int64_t times);

}  // namespace tessera::ir
