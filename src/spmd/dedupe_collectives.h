// SPDX-License-Identifier: Apache-2.0
// CSE of collectives.
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd {

/// Collectives of one computation that have the same operands and do the same are made one. Whether
/// there were any.
bool dedupe_collectives(ir::Module* module);

}  // namespace tessera::spmd
