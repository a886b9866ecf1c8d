// SPDX-License-Identifier: Apache-2.0
// Where arguments pull different ways (a batch and the weights that it meets, each split along a
// dim of its own), what flows from one of them before all others is worth trying as a whole.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

/// Split arguments that others may follow, the most promising first; none if there is only one.
std::vector<const ir::Instruction*> leading_arguments(const ir::Module& module);

}  // namespace tessera::spmd
