// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters whose indices a program counts, as windows of an array that are unfolded and
// folded.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Gathers become slices where each number of their indices counts along one dim, and a few slices
/// behind one another where a vector counts in runs. Scatters that add
/// up overlapping windows become sums of moved arrays: along each dim one for each place of a
/// window. Returns the number of rewrites.
///
/// Example, windows of 4 at every second place, y[2 * i + k] += x[k, i]:
///
///   y of even places: x[0] + x[2], moved by one    of odd places: x[1] + x[3], moved by one
std::size_t expand_counted_indices(ir::Module* module);

}  // namespace tessera::passes
