// SPDX-License-Identifier: Apache-2.0
// Loops whose trips are steps of a stencil: several of them at once take one exchange of more rows,
// and pass over memory as often as one.
// Also called: temporal blocking, communication-avoiding stencils.
#pragma once

#include <vector>

#include "src/ir/module.h"
#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/partition_options.h"

namespace tessera::spmd::stencils {

/// A loop that was unrolled.
struct Steps {
  ir::Computation* body = nullptr;
  std::int64_t rank = 0;         ///< dims of its arrays, at most
  std::int64_t large_bytes = 0;  ///< the least that such an array has
};

/// Unrolls loops over large arrays that roll, shift and combine these alone: as many steps at once
/// as take the least time on the machine. `origins` as expand_stencils has it; may be null.
std::vector<Steps> unroll_loops(ir::Module* module, const PartitionOptions& options,
                                Origins* origins);

}  // namespace tessera::spmd::stencils
