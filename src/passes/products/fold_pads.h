// SPDX-License-Identifier: Apache-2.0
// Pads in front of convolutions and windows.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Zeros around what is convolved, and neutral elements around what windows reduce, become padding
/// of the windows: nothing is copied for them. Returns how many.
std::size_t fold_pads(ir::Module* module);

}  // namespace tessera::passes
