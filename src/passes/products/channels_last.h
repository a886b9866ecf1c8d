// SPDX-License-Identifier: Apache-2.0
// Convolutional networks with features in front of positions, computed with features last.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Convolutions that make [batch, features, positions...], as those of PyTorch do, make [batch,
/// positions..., features] instead, as their kernels do, and what follows (elementwise ops,
/// windows, pads, slices, concatenations, reshapes, reductions) is computed in that order:
/// transposes go where it ends, or into the dim numbers of the next convolution. Returns how many
/// convolutions.
std::size_t put_channels_last(ir::Module* module);

}  // namespace tessera::passes
