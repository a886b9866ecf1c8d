// SPDX-License-Identifier: Apache-2.0
// Common subexpressions.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Instructions that compute the same from the same operands, with the same sharding if any, become
/// one. Returns how many arrays fewer are computed.
std::size_t eliminate_common(ir::Module* module);

}  // namespace tessera::passes
