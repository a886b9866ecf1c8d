// SPDX-License-Identifier: Apache-2.0
// Operations on types that kernels don't compute with, as those on types that they do.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reductions, scatters, sorts and products of integers and floats of fewer than 8 bits, and of
/// floats of 8, are computed in a wider type and converted back, rounded as often as they were: so
/// are factorizations of halves. A few operations that are rare on their types are written as
/// others. Returns how many.
std::size_t widen_small_types(ir::Module* module);

}  // namespace tessera::passes
