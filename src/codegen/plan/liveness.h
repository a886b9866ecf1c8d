// SPDX-License-Identifier: Apache-2.0
// The static memory plan: where each value dies, and whose memory its successor takes.
#pragma once

#include <cstdint>
#include <set>

#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Fills release lists, donates and reuses.
void plan_memory(runtime::Plan* plan);

/// Of one device's memory, and apart from that of its host's, of both kinds together.
struct MemoryEstimateOfOne {
  std::int64_t peak = 0;     ///< arguments and results included
  std::int64_t results = 0;  ///< without those that are arguments
  std::int64_t reused = 0;   ///< results written into arguments' memory
};
struct MemoryEstimate : MemoryEstimateOfOne {
  using Part = MemoryEstimateOfOne;
  Part host;
};
/// Walks the plan as the executor would, results written over operands and donations included.
/// `donated`: parameters whose memory may be taken.
MemoryEstimate estimate_memory(const runtime::Plan& plan, const std::set<std::int64_t>& donated);
/// Plans the memory of a plan that has none yet, and finalizes it. Returns the peak of a device
/// that keeps its arguments: what plans are compared by.
std::int64_t settle_memory(runtime::Plan* plan);

}  // namespace tessera::codegen
