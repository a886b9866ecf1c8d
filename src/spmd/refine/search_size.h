// SPDX-License-Identifier: Apache-2.0
// How large a program is to a search for its shardings.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::spmd {

/// The number of instructions of a module, except that elementwise ones on integers, and the
/// constants, iotas and broadcasts that they take, count as a quarter each. Random numbers are
/// hashes of hundreds of these, which are quick to propagate and to partition, and of which no
/// sharding is tried: a program isn't to lose its search for them.
std::int64_t search_size(const ir::Module& module);

}  // namespace tessera::spmd
