// SPDX-License-Identifier: Apache-2.0
// In which kind of memory each slot of a plan is.
#pragma once

#include <vector>

#include "src/base/arrays/memory_kind.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Sets Slot::memory, given that of each parameter. A transfer's result is where it says, other
/// results are where the operands are, numbers aside. What is made of nothing is made where it is
/// needed, and in device memory if anywhere will do. Transfers within one memory go.
///
///     x: pinned_host, w: device        x: pinned_host, w: device
///     y = transfer to device(x)        y: device
///     z = transfer to device(w)        (w itself)
///     a = y * w                        a: device
///     b = fill(0)                      b: pinned_host
///     loop carries b:                  b: pinned_host
///       b = update(b, transfer to pinned_host(a))
void assign_memory(runtime::Plan* plan, const std::vector<MemoryKind>& parameters);

}  // namespace tessera::codegen
