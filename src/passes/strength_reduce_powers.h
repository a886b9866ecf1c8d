// SPDX-License-Identifier: Apache-2.0
// Products and roots in place of powers by small constants.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// PyTorch writes squares, cubes (as of GELU) and inverse roots as powers, which take many times as
/// long. Returns how many went.
///
///     power(x, 3) = (x x) x;  power(x, -2) = (1 / x) (1 / x);  power(x, 0.5) = sqrt(x)
///
/// Results have errors of at most 3 units in the last place; infinities, zeros and what is no
/// number stay what they were. Floats of 16 bits and fewer become squares, roots and reciprocals
/// alone, as they are rounded after each op.
std::size_t strength_reduce_powers(ir::Module* module);

}  // namespace tessera::passes
