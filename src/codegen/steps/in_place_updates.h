// SPDX-License-Identifier: Apache-2.0
// The order of steps in loops, so that what is carried is changed where it is.
// Also called: in-place update scheduling, copy elision.
#pragma once

#include "src/runtime/plan.h"

namespace tessera::codegen {

/// In the bodies of loops, moves steps that may write a result over one of their inputs behind the
/// other steps that read this one, where none of those needs the result:
///
///     c' = c * w + k v^T        o = r c
///     o = r c             →     c' = c * w + k v^T, in the memory of c
///
/// Before steps are joined.
void schedule_in_place_updates(runtime::Plan* plan);

}  // namespace tessera::codegen
