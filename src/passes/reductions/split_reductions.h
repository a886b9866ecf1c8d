// SPDX-License-Identifier: Apache-2.0
// Long reductions to few results, made of two: of stretches, which workers share, and of their
// results.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reductions by one commutative op whose reduced dims are neighbours. Returns how many were split.
std::size_t split_reductions(ir::Module* module);

}  // namespace tessera::passes
