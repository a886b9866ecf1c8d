// SPDX-License-Identifier: Apache-2.0
// Dots of a batch by one matrix that all of it shares.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Where an operand of a dot is a broadcast along a batch dim, this becomes a free dim of the other
/// operand: one product of many rows in place of many products of a few. Returns how many dots.
std::size_t share_factors(ir::Module* module);

}  // namespace tessera::passes
