// SPDX-License-Identifier: Apache-2.0
// While loops of known length become scans.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::transforms {

/// Puts a scan in the place of each `while` that counts to a number that can be read off it, so
/// that it can be differentiated in reverse. What a trip reads by a slice at its own number is an
/// input, what it writes so an output; what it leaves as it is a constant. Calls in the bodies are
/// put in place. Returns how many.
///
///     while(0, c, xs, ys), i < n                          scan(xs, c), length=n
///       x = dynamic-slice(xs, i); (d, y) = step(c, x)  =>    step(x, c) -> (y, d)
///       (i + 1, d, xs, dynamic-update-slice(ys, y, i))
std::size_t raise_scans(ir::Module* module);
/// The same in one computation of it and in what that calls.
std::size_t raise_scans_in(ir::Computation* computation);

}  // namespace tessera::transforms
