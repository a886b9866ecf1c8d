// SPDX-License-Identifier: Apache-2.0
// Manual computations: code per device inside a program on global arrays. See
// ir::ManualComputationAttrs for what one says.
#pragma once

#include <string>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd::manual {

/// The forms that HLO text has for manual computations become that op:
///  - `xla.sdy.GlobalToLocalShape`, a call of `xla.sdy.manual_computation_body...`, and
///    `xla.sdy.LocalToGlobalShape`;
///  - whatever stands between `SPMDFullToShardShape` and `SPMDShardToFullShape`.
/// A call whose meshes were not found when it was read is refused with what is wrong.
/// Constraints within reducers and the like are dropped: scalars have no layout.
void raise(ir::Module* module);

/// What the calls say becomes shardings: operands get a constraint each, results theirs. A body
/// that leaves no axis automatic is stripped of shardings and is no part of propagation. Another
/// one has open shardings on its parameters and results that name the manual axes, is used by one
/// call alone, and its root is a tuple. Checks the shapes (ShapeError, ShardingError with the
/// user's line).
void bind(ir::Module* module);

/// Manual computations neither take nor give tokens any more.
void drop_tokens(ir::Module* module);

/// After bind(), of a call that leaves no axis automatic: where its operands or results are partial
/// values, the body is given whole arrays and makes the parts, or joins those that it gives. On the
/// program's own mesh parts cross the boundary as they are.
void take_whole_arrays(ir::Instruction* call);

/// Of a call that is_partly_manual: the manual axes, on `mesh`, which refines the body's; those of
/// the calls around it included.
IndexList axes_of(const ir::Instruction& call, const MeshRef& mesh);

/// The parts of `raise`.
void raise_sdy_calls(ir::Module* module);
void raise_shard_shapes(ir::Module* module);

}  // namespace tessera::spmd::manual
