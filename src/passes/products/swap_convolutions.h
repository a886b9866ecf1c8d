// SPDX-License-Identifier: Apache-2.0
// Convolutions whose kernel is larger than their input.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Convolutions without strides or groups whose kernel covers more places than their input, as
/// derivatives by kernels often do, become convolutions of the kernel by the input: as many
/// products count, and fewer of those with padding are made. Returns how many.
std::size_t swap_convolutions(ir::Module* module);

}  // namespace tessera::passes
