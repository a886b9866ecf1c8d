// SPDX-License-Identifier: Apache-2.0
// Constraints: calls that give their operand and say how it is sharded.
#pragma once

#include "src/ir/hooks.h"

namespace tessera::ir {

/// custom_call_target of what a function returns, as JAX notes it; that of with_sharding_constraint
/// is kShardingTarget.
inline constexpr const char* kResultShardingTarget = "xla.sdy.FuncResultSharding";

/// Whether the instruction is a call of one of these two.
bool is_constraint(const Instruction& instruction);

}  // namespace tessera::ir
