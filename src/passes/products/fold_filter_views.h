// SPDX-License-Identifier: Apache-2.0
// Filters of convolutions that are turned round or transposed.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Convolutions of a reversed or transposed filter become convolutions of the filter as it is, with
/// windows that are reversed and dims that are named otherwise: kernels bring a filter to their
/// order by one copy at most. Gradients of convolutions and transposed convolutions have both. What
/// reverses few features stays. Returns how many were folded.
std::size_t fold_filter_views(ir::Module* module);

}  // namespace tessera::passes
