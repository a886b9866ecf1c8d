// SPDX-License-Identifier: Apache-2.0
// Ops that HLO lacks and that are custom calls in its text: from the calls of a text and back.
#pragma once

#include <string>

#include "src/ir/module.h"

namespace tessera::ir {

/// custom_call_target of a sharding_constraint of each kind.
inline constexpr const char* kShardingTarget = "Sharding";
inline constexpr const char* kResultShardingTarget = "xla.sdy.FuncResultSharding";
inline constexpr const char* kBarrierTarget = "xla.sdy.PropagationBarrier";
inline constexpr const char* kCustomPartitioningTarget = "CustomSPMDPartitioning";

/// A custom call of one of these targets, as readers of text have it, becomes the op.
void raise_custom_call(Instruction* call);
/// The same as a custom call, for writers of text. Part of no computation, nobody's user.
Instruction as_custom_call(const Instruction& op);

/// The target of a custom call, or of what is printed as one; empty for others.
std::string custom_call_target(const Instruction& instruction);
/// Dims that `unspecified_dims=[0,1]` in the backend_config of a call leaves to propagation.
Dims unspecified_dims(const Instruction& call);

}  // namespace tessera::ir
