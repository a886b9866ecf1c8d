// SPDX-License-Identifier: Apache-2.0
// What loops compute anew in each trip though it stays the same.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Computes in front of a loop what is the same in all of its trips, where that saves more than
/// carrying the result costs: what is read instead of it, and the work of all but one trip.
/// Collectives, and what depends on them, stay (see spmd::move_collectives_out_of_loops). Returns
/// how many values are carried more.
std::size_t move_invariants_out_of_loops(ir::Module* module);

}  // namespace tessera::passes
