// SPDX-License-Identifier: Apache-2.0
// Collectives in one instruction.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Start and done pairs become the plain collectives: exchanges are synchronous in one process.
std::size_t join_async(ir::Module* module);

}  // namespace tessera::passes
