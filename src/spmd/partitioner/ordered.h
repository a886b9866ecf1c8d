// SPDX-License-Identifier: Apache-2.0
// What the ops share whose elements along a dim depend on each other: sorts, the k greatest,
// running folds, reductions by any reducer.
#pragma once

#include <vector>

#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

// top_k.cc
/// The cost of a layout where operands come from whichever layout others need them in, too.
double price_of(ComputationPartitioner& p, const ir::Instruction& source,
                const ComputeLayout& layout);
/// How the last step of a selection is computed: each device's candidates, `candidates` of them
/// along `dim` and lying by `shardings`, come together for it.
ComputeLayout layout_of_winners(ComputationPartitioner& p, const ir::Instruction& source,
                                std::int64_t dim, std::int64_t candidates,
                                const std::vector<TensorSharding>& shardings,
                                const std::vector<Shape>& results);

}  // namespace tessera::spmd
