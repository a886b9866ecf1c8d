// SPDX-License-Identifier: Apache-2.0
// What may leave a loop.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// A collective of one array that nothing else orders, of the kinds that passes over collectives
/// know.
bool is_plain_collective(const Instruction& i);
/// Gives the same wherever it stands, in a loop or before it, if its operands do. Those that run
/// programs of their own are left out: whether they come to an end has to be known besides.
bool may_stand_outside(const Instruction& i);

}  // namespace tessera::ir
