// SPDX-License-Identifier: Apache-2.0
// Convolutions without taps that see padding only.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Leaves out taps at either end of windows that no position sees the input through, as most of
/// those of a large window on a small image. Along a dim of one element each position has one tap
/// at most: its results are features, which the taps in question are the filter of, and if there is
/// no other dim, the convolution becomes a dot. Returns how many convolutions changed.
std::size_t clip_windows(ir::Module* module);

}  // namespace tessera::passes
