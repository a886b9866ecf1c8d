// SPDX-License-Identifier: Apache-2.0
// Sorts of which only the first few elements are read.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Sorts along the last dim by the elements themselves, or of elements with their places, become
/// top-ks where only slices of the first elements are read: their time then grows with the length,
/// not with its logarithm too. Producers write a top-k as such a sort. Returns how many.
std::size_t sorts_as_topk(ir::Module* module);

}  // namespace tessera::passes
