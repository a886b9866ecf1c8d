// SPDX-License-Identifier: Apache-2.0
// Ragged dots (of groups of rows, as of mixtures of experts) and scaled dots (of blocks that have a
// scale each) as dots.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// A ragged dot multiplies all rows by all groups' matrices, in one product, and takes for each row
/// what its group made. Returns how many were rewritten.
std::size_t expand_dot_variants(ir::Module* module);

}  // namespace tessera::passes
