// SPDX-License-Identifier: Apache-2.0
// Arrays of several processes, which one of them writes.
#pragma once

#include <functional>
#include <span>

#include "src/base/processes/processes.h"
#include "src/frontend/checkpoint/snapshot.h"

namespace tessera::frontend {

/// Calls `write`, in process 0, with the elements of the array in row-major order, a few MB at a
/// time, which the others send. All processes call it, in a turn; `write` must not throw.
void gather_stream(const SavedArray& array, Processes* processes, const Activity& activity,
                   const std::function<void(std::span<const std::byte>)>& write);

}  // namespace tessera::frontend
