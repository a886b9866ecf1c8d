// SPDX-License-Identifier: Apache-2.0
// Loops whose trips are steps of a stencil: several of them at once take one exchange of more rows,
// and pass over memory as often as one.
#pragma once

#include <vector>

#include "src/ir/module.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::spmd::stencils {

/// A loop that was unrolled, over arrays of so many dims.
struct Steps {
  ir::Computation* body = nullptr;
  std::int64_t rank = 0;
};

/// Unrolls loops over large arrays that roll, shift and combine these alone. `origins` as
/// expand_stencils has it; may be null.
std::vector<Steps> unroll_loops(ir::Module* module, Origins* origins);

}  // namespace tessera::spmd::stencils
