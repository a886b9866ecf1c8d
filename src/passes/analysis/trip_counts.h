// SPDX-License-Identifier: Apache-2.0
// Finds constant trip counts of loops.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Notes how often loops run whose counter starts at a constant, changes by a constant and is
/// compared with a constant: what `for` loops and scans become. Returns how many were found.
std::size_t find_trip_counts(ir::Module* module);

}  // namespace tessera::passes
