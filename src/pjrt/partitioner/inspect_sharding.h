// SPDX-License-Identifier: Apache-2.0
// jax.debug.inspect_array_sharding: a function of the client that is told how an array is split.
#pragma once

#include <memory>
#include <vector>

#include "src/ir/module.h"

namespace tessera::pjrt {

/// One call that asks.
class ShardingInspection {
 public:
  virtual ~ShardingInspection() = default;
  /// Tells the client what was chosen. CompileError with the client's text if it fails.
  virtual void report() = 0;
};

/// Takes the calls of InspectSharding in a program that was read. What is returned is to report
/// once the program has been compiled.
std::vector<std::shared_ptr<ShardingInspection>> attach_inspections(ir::Module* module);

}  // namespace tessera::pjrt
