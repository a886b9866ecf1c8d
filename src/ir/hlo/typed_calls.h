// SPDX-License-Identifier: Apache-2.0
// Ops that HLO lacks and that are custom calls in its text: from the calls of a text and back.
#pragma once

#include <string>

#include "src/ir/custom_call_targets.h"
#include "src/ir/module.h"
#include "src/sharding/axes/sdy_text.h"

namespace tessera::ir {

/// A custom call that kept its text.
inline bool calls_target(const Instruction& i, std::string_view target) {
  return i.is(Opcode::custom_call) && i.get<CustomCallAttrs>().target == target;
}

/// A custom call that a reader of text made becomes the op that its target names, if any. One whose
/// shapes don't fit a topk stays, for whoever compiles it to say what is wrong.
void raise_custom_call(Instruction* call);
/// The same as a custom call, for writers of text. Part of no computation, nobody's user. Names of
/// meshes are given up where they shall stand in place.
Instruction as_custom_call(const Instruction& op, bool meshes_in_place = false);

/// Makes the op that custom call, where it stands: what its text names is looked up anew when it is
/// raised.
void lower_to_custom_call(Instruction* op);

/// The meshes that a text may name.
struct NamedMeshes {
  MeshTable by_name;
  MeshRef otherwise;  ///< where nothing else tells which mesh it is
};
NamedMeshes named_meshes(const Module& module);
/// A custom call that is a manual computation becomes the op, by the meshes that its module's text
/// names. ParseError, ShardingError or ValueError with the call's line.
void raise_manual_computation(Instruction* call, const NamedMeshes& meshes);
/// All of a module that can be, `meshes` being those that its text declares; others stay as they
/// are, for whoever compiles them to say what is wrong.
void raise_manual_computations(Module* module, MeshTable meshes = {});

/// `"x", "y":(1)2`
std::string axes_text(const MeshRef& mesh, const IndexList& axes);
/// The target of a custom call, or of what is printed as one; empty for others.
std::string custom_call_target(const Instruction& instruction);
/// Dims that `unspecified_dims=[0,1]` in the backend_config of a call leaves to propagation.
Dims unspecified_dims(const Instruction& call);

}  // namespace tessera::ir
