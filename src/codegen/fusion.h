// SPDX-License-Identifier: Apache-2.0
// Which elementwise ops run in the loop of the op that uses them, so that their values never reach
// memory.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/module.h"
#include "src/passes/uniformity.h"

namespace tessera::codegen {

struct Fusion {
  /// By instruction index: the instruction in whose loop it runs; its own index for the last op of
  /// a loop; -1 for what is no loop op.
  std::vector<std::int64_t> root;
  /// Broadcasts and iotas that every user makes on the fly.
  std::vector<bool> on_the_fly;
};

Fusion fuse(const ir::Computation& computation, const passes::UniformityFacts& facts);

}  // namespace tessera::codegen
