// SPDX-License-Identifier: Apache-2.0
// Integers that are known before a program runs, as shapes are computed.
#pragma once

#include <optional>

#include "src/ir/instruction.h"

namespace tessera::text {

/// Of constants, and of what additions, subtractions, products, extrema, conversions, reshapes,
/// concatenations and slices make of them; nothing for other values.
std::optional<Dims> known_integers(const ir::Instruction& i);

}  // namespace tessera::text
