// SPDX-License-Identifier: Apache-2.0
// How many blocks of each size a plan for one device can hold at a time, whatever decides in it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::runtime {

struct BlockBounds {
  std::vector<std::int64_t> sizes;    ///< in bytes, rounded up to whole cache lines
  std::vector<std::int32_t> counts;   ///< of each size
  std::vector<std::int32_t> size_of;  ///< of each slot: index of its size
};

/// Each block belongs to a live slot, so no more are needed than slots of a size are live at a
/// time. This has to hold of every run, of any number of trips and where no result is written over
/// an operand; `estimate_memory` of codegen says what the usual one holds, which is less.
BlockBounds bound_blocks(const Plan& plan);

}  // namespace tessera::runtime
