// SPDX-License-Identifier: Apache-2.0
// What is used of an argument, as an array of its own, with a sharding of its own.
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd {

/// A view is a call for a sharding that asks for none. Of what dead code uses there is none: that
/// code is dropped.
void add_views(ir::Module* module);
/// Those that are sharded as their arguments go. They are looked for: what has been done to the
/// module since they were added may have removed some.
void drop_views(ir::Module* module);

/// The argument, of a view that `drop_views` would drop; anything else, null included, itself.
const ir::Instruction* without_view(const ir::Instruction* instruction);
/// Whether the instruction is a use of an argument of the program that may be sharded
/// otherwise than the argument: it is the argument still, and its operand 0.
bool is_argument_view(const ir::Instruction& instruction);

}  // namespace tessera::spmd
