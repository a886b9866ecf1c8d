// SPDX-License-Identifier: Apache-2.0
// What may leave a loop.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// A collective of one array that nothing else orders, of the kinds that passes over collectives
/// know.
bool is_plain_collective(const Instruction& i);
/// Gives the same wherever it stands, in a loop or before it, if its operands do.
bool may_stand_outside(const Instruction& i);
/// By instruction of a loop's body: whether it is an array that has the same value in all trips.
std::vector<char> loop_invariant_values(const Computation& body);

}  // namespace tessera::ir
