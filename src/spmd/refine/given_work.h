// SPDX-License-Identifier: Apache-2.0
// How far the shardings as they stand share the work of dots out.
#pragma once

#include <unordered_map>

#include "src/ir/module.h"

namespace tessera::spmd {

/// Flops of one device's dots and convolutions if nothing were moved to share them out further: a
/// dim of the result is split as the result is, or else as the operand is that it comes from; a
/// contracted one where both operands are. `module`: propagated.
double dot_flops_as_given(const ir::Module& module);

/// How often each computation runs, as far as that is known.
std::unordered_map<const ir::Computation*, double> executions(const ir::Module& module);

}  // namespace tessera::spmd
