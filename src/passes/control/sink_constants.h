// SPDX-License-Identifier: Apache-2.0
// Constants that loops carry.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Has loops make what they carry unchanged and read from memory, if it is one number everywhere or
/// counts along a dim: bodies are simplified with it, and it takes no memory. Returns how many
/// carries nobody reads any more; merge_loop_carries() drops them.
std::size_t sink_constants_into_loops(ir::Module* module);

}  // namespace tessera::passes
