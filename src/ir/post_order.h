// SPDX-License-Identifier: Apache-2.0
// Computations in post-order of the call graph.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// The computations reachable from `roots`, callees first. ValueError if one calls itself.
std::vector<Computation*> post_order(const std::vector<Computation*>& roots);

}  // namespace tessera::ir
