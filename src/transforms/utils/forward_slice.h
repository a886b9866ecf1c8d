// SPDX-License-Identifier: Apache-2.0
// What of a computation depends on some of its parameters.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::transforms {

/// By index of the instruction; `parameters` by number.
std::vector<bool> forward_slice(const ir::Computation& computation,
                                const std::vector<bool>& parameters);

}  // namespace tessera::transforms
