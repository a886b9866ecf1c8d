// SPDX-License-Identifier: Apache-2.0
// Scans become while loops.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Puts a `while` in the place of each scan: a counter, dynamic slices of the inputs, stacked
/// updates of the outputs. A scan over nothing but carries, one of which counts by one from a
/// known integer (as of fori_loop), has no other counter. A trip does as many steps as the scan
/// unrolls, and steps that are left over follow the loop; if it unrolls all, there is none.
/// CompileError if that would be too many. Returns how many.
///
///     scan(x, c, k), length=n, step     while(tuple(0, c, zeros, x, k)), condition: i < n
///       step(s, c, k) -> (y, d)    =>     (i + 1, d, update(ys, y, i), x, k)
///                                         where (y, d) = step(slice(x, i), c, k)
std::size_t expand_scans(ir::Module* module);
/// The same in one computation of it and in what that calls.
std::size_t expand_scans_in(ir::Computation* computation);

}  // namespace tessera::passes
