// SPDX-License-Identifier: Apache-2.0
// Windows that see all of an array.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Reduce-windows whose window is one element or all elements along each dim, as pooling of whole
/// images is written, become reductions. Returns how many.
std::size_t windows_as_reductions(ir::Module* module);

}  // namespace tessera::passes
