// SPDX-License-Identifier: Apache-2.0
// Gathers by rows and by columns, one dim at a time.
// Also called: separable resampling.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Gathers at all combinations of a row and a column (of one index for each dim, each computed
/// along a dim of its own) become a gather along each of the dims. Weighted sums of the windows
/// that they find, by weights that are products of such of each dim, become a weighted sum along
/// each dim: resizing of images is such, linear or cubic. Elementwise ops are computed in front of
/// gathers that repeat rows. Returns how many.
std::size_t separate_gathers(ir::Module* module);

}  // namespace tessera::passes
