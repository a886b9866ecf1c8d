// SPDX-License-Identifier: Apache-2.0
// One order of dims for all that is computed between dots.
// Also called: layout assignment.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Large arrays that dots make, what is computed of them element by element or reduced, and the
/// dots that read it take one order of dims, if less has to be moved then. Attention with grouped
/// queries is written with its scores in three orders; what is transposed instead is queries,
/// and numbers of rows. Returns how many groups of arrays.
std::size_t unify_dim_orders(ir::Module* module);

}  // namespace tessera::passes
