// SPDX-License-Identifier: Apache-2.0
// Collectives of several arrays packed into one.
#pragma once

#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::spmd {

/// One reduce-scatter, all-to-all or collective-permute for several of the same groups and type:
/// their arrays are side by side in one. Returns what each of them gives.
std::vector<ir::Instruction*> combined_collective(ir::Builder& b,
                                                  const std::vector<ir::Instruction*>& members,
                                                  std::int64_t group_size);

}  // namespace tessera::spmd
