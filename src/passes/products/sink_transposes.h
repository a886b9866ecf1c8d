// SPDX-License-Identifier: Apache-2.0
// Transposes that dots may as well take, and those that undo others.
// Also called: sinking.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// What only dots read and elementwise ops compute of transposed arrays is computed of the arrays,
/// and transposed for the dots, which take that as it stands for the most part:
///
///     dot(transpose(x) * w, x)  =>  dot(transpose(x * w), x)
///
/// Returns how many.
std::size_t sink_transposes(ir::Module* module);

/// Where elementwise ops read arrays that are transposed one way, and what they make is transposed
/// back, they read the arrays:
///
///     transpose(exp(transpose(x)))  =>  exp(x)
///
/// What they read of iotas and broadcasts is made in that order. Returns how many.
std::size_t cancel_transposes(ir::Module* module);

}  // namespace tessera::passes
