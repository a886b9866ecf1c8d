// SPDX-License-Identifier: Apache-2.0
// What is used of an argument, as an array of its own, with a sharding of its own.
#pragma once

#include <unordered_map>

#include "src/ir/module.h"

namespace tessera::spmd {

/// By argument. A view is a call for a sharding that asks for none.
using ArgumentViews = std::unordered_map<const ir::Instruction*, ir::Instruction*>;

ArgumentViews add_views(ir::Module* module);
/// Those that are sharded as their arguments go.
void drop_views(ir::Module* module, const ArgumentViews& views);

/// Whether the instruction is a use of an argument of the program that may be sharded
/// otherwise than the argument: it is the argument still, and its operand 0.
bool is_argument_view(const ir::Instruction& instruction);

}  // namespace tessera::spmd
