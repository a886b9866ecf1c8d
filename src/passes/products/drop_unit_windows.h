// SPDX-License-Identifier: Apache-2.0
// Convolutions without dims along which nothing is convolved.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Leaves out spatial dims of one element, as a device's part of a stencil has them, so that
/// kernels for one and two dims apply. Returns how many convolutions changed.
std::size_t drop_unit_windows(ir::Module* module);

}  // namespace tessera::passes
