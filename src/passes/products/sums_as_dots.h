// SPDX-License-Identifier: Apache-2.0
// Products of matrices that are written out as sums of elementwise products.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// A sum of x * y, x the same along some dims of the result and y along others, is a dot: so
/// programs write similarities of all pairs. Returns how many.
std::size_t sums_as_dots(ir::Module* module);

}  // namespace tessera::passes
