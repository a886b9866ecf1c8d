// SPDX-License-Identifier: Apache-2.0
// Select-and-scatters as windows and scatters.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Select-and-scatters that have no kernel: a window's reduction finds the place of what is
/// selected, and a scatter combines what comes there. Returns how many.
std::size_t expand_selections(ir::Module* module);

}  // namespace tessera::passes
