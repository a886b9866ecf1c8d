// SPDX-License-Identifier: Apache-2.0
// Cost analysis of one device's program.
#pragma once

#include "src/compiler/compile.h"

namespace tessera::compiler {

/// Of one device's program. Loops count as often as their known trip count says, else once.
CostAnalysis analyze_cost(const ir::Module& module, const Network& network = {});

}  // namespace tessera::compiler
