// SPDX-License-Identifier: Apache-2.0
// What the algorithm of a dot says of its operands, as conversions.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Operands of f32 that a dot is to round to bf16 first, as those of gradients of products of bf16,
/// are converted to it. Returns how many.
std::size_t convert_dot_operands(ir::Module* module);

}  // namespace tessera::passes
