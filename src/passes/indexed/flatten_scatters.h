// SPDX-License-Identifier: Apache-2.0
// Scatters of elements and rows with one index each.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Scatters whose index vectors have several numbers, or a batch, and whose windows are elements or
/// rows of the array become scatters along the first of its dims, joined: one loop computes the
/// index of each, with what makes the vectors. Where a transpose puts rows together that are added
/// to zeros, they are taken from where they come from, and stand first in the array, too. Elements
/// of whole rows, by an index that is the same for all of a row, are rows first. Returns how many.
std::size_t flatten_scatters(ir::Module* module);

}  // namespace tessera::passes
