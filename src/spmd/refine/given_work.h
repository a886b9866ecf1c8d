// SPDX-License-Identifier: Apache-2.0
// How far the shardings as they stand share the work of dots out.
#pragma once

#include <unordered_map>

#include "src/ir/module.h"

namespace tessera::spmd {

/// Flops of one device's dots and convolutions.
struct DotWork {
  /// If nothing were moved to share them out further: each shared out as `ways_as_given` says.
  /// Of a conditional's branches the most that one has counts.
  double as_given = 0;
  /// If all devices shared all of them.
  double least = 0;
};
/// `module`: propagated.
DotWork dot_work(const ir::Module& module);

/// How often each computation runs, as far as that is known.
std::unordered_map<const ir::Computation*, double> executions(const ir::Module& module);

}  // namespace tessera::spmd
