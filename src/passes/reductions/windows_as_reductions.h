// SPDX-License-Identifier: Apache-2.0
// Windows that see all of an array, or one element of it each.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reduce-windows whose window is one element or all elements along each dim, as pooling of whole
/// images is written, become reductions. Returns how many.
std::size_t windows_as_reductions(ir::Module* module);
/// Reduce-windows of elements that are set apart so far that each window sees one of them, as
/// gradients of sums over windows beside each other are written, repeat these. Returns how many.
std::size_t windows_as_copies(ir::Module* module);

}  // namespace tessera::passes
