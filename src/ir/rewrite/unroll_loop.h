// SPDX-License-Identifier: Apache-2.0
// Several trips of a loop as one.
#pragma once

#include <cstdint>
#include <functional>

#include "src/ir/module.h"

namespace tessera::ir {

/// Has a loop that runs `trips` times do `times` trips at once, in a new loop that counts by
/// itself. What is left over stays with the old loop, which goes on from there; if nothing is left,
/// it is gone. The loop must carry a tuple whose elements are known
/// (WhileView::has_separate_carries). Returns the new loop. The order is restored, what is dead is
/// removed. `copied` is told of what copies instructions of the body and the condition, those that
/// are removed at once among them.
using Copied = std::function<void(const Instruction& from, const Instruction& to)>;
Instruction* unroll_loop(Instruction* loop, std::int64_t trips, std::int64_t times,
                         const Copied& copied = nullptr);

}  // namespace tessera::ir
