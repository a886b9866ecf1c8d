// SPDX-License-Identifier: Apache-2.0
// Batches of tiny products as sums of elementwise products.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Products of many matrices of a few rows and columns become elementwise products of broadcast
/// columns and rows, summed in order: one loop computes them with what makes and uses them, where a
/// kernel for products would spend its time between them. After partitioning. Returns how many.
std::size_t unroll_dots(ir::Module* module);

}  // namespace tessera::passes
