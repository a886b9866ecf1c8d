// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd {

/// Gives every instruction a sharding, from those of parameters, results and constraints, by factor
/// rules (Shardy's priorities: user priority, then op kind, then aggressiveness).
///
/// On entry: entry parameters and the root may have shardings (closed where the user fixed them;
/// open dims may be extended), `Sharding` custom calls have theirs. On exit: all instructions of
/// all reachable computations have closed shardings on one mesh, refined so that axes are equal or
/// disjoint (module->mesh); carries of loops, branches' results and call boundaries agree.
/// Constants, iotas and broadcasts of scalars are duplicated per user first, so that one use's
/// sharding doesn't leak into another.
void propagate(ir::Module* module);

}  // namespace tessera::spmd
