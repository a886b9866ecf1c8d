// SPDX-License-Identifier: Apache-2.0
// One step of propagation: the tensors of one op take over each other's axes, factor by factor.
#pragma once

#include <vector>

#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {

/// What an op may do at one level of the schedule.
struct Permission {
  bool enabled = false;
  bool forward = true, backward = true;
  bool all_kinds = true;  ///< else pass-through factors only
  friend bool operator==(const Permission&, const Permission&) = default;
};

/// Lets axes flow within an op and appends the values that changed. True if no other permission
/// would let more flow: nothing is split, or all tensors of an elementwise op are split alike.
///
/// Careful (`aggressive` false): along a factor only those axes flow that no tensor of the op has a
/// reason to refuse; one that lacks the factor refuses the axes that split another dim of it.
/// Aggressive: each tensor takes what it can; where two factors want one axis, that of the larger
/// tensor comes first. (Shardy's basic and aggressive strategies.)
bool propagate_op(Graph* graph, const Op& op, const Permission& permission, bool aggressive,
                  IndexList* changed);

}  // namespace tessera::spmd::propagation
