// SPDX-License-Identifier: Apache-2.0
// Constraints, told by their targets.
#include "src/ir/constraint.h"

namespace tessera::ir {

bool is_constraint(const Instruction& instruction) {
  const auto* call = instruction.attrs.get_if<CustomCallAttrs>();
  return call && (call->target == kShardingTarget || call->target == kResultShardingTarget);
}

}  // namespace tessera::ir
