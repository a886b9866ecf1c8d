// SPDX-License-Identifier: Apache-2.0
// Several short kernels one after the other, as one call.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/tiled_chain.h"

namespace tessera::codegen {

/// Links run whole; of each only the kernel, units, time and places are given.
struct StepChain {
  std::vector<TiledChain::Link> links;
  std::vector<std::int64_t> scratch;  ///< bytes
};

/// Of one unit.
KernelDescriptor step_chain_kernel(StepChain chain);

}  // namespace tessera::codegen
