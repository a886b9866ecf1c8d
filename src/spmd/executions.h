// SPDX-License-Identifier: Apache-2.0
// How often each computation of a module runs.
#pragma once

#include <unordered_map>

#include "src/ir/module.h"

namespace tessera::spmd {

/// As far as that is known: loops of unknown length count once.
std::unordered_map<const ir::Computation*, double> executions(const ir::Module& module);

}  // namespace tessera::spmd
