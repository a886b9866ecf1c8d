// SPDX-License-Identifier: Apache-2.0
// When arrays move between the memories of a device and its host.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Orders transfers so that device memory is free for longest: an array leaves for the host as soon
/// as it is there, and comes from the host just before it is needed. Returns how many computations
/// have another order.
std::size_t schedule_placements(ir::Module* module);

}  // namespace tessera::passes
