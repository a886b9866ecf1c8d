// SPDX-License-Identifier: Apache-2.0
// Constraints: ops that give their operand and say how it is sharded.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// with_sharding_constraint, or what a function says of its results.
inline bool is_constraint(const Instruction& i) { return i.is(Opcode::sharding_constraint); }
/// One that propagation doesn't pass through.
inline bool is_reshard(const Instruction& i) {
  return is_constraint(i) &&
         i.get<ShardingConstraintAttrs>().kind == ShardingConstraintAttrs::Kind::reshard;
}

}  // namespace tessera::ir
