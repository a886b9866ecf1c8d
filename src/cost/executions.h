// SPDX-License-Identifier: Apache-2.0
// How often each computation of a module runs.
#pragma once

#include <unordered_map>

#include "src/ir/module.h"

namespace tessera::cost {

/// As far as that is known: loops of unknown length count once.
struct Executions {
  double times = 0;         ///< if each branch is taken
  double counted = 0;       ///< of a conditional's branches only in that which receives most
  bool trips_known = true;  ///< of all loops around it
};

/// Of those that run as a part of the program.
std::unordered_map<const ir::Computation*, Executions> executions(const ir::Module& module);

}  // namespace tessera::cost
