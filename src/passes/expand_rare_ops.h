// SPDX-License-Identifier: Apache-2.0
// Operations that are too rare for kernels of their own, as operations that have some.
// XLA does the same in its rng-expander and its stochastic-convert-decomposer.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Writes random numbers as random bits of a state that counts on from call to call, high halves of
/// products as products of wider integers or of halves, stochastic conversions and angles of
/// complex numbers as elementwise ops, and convolutions of truth values as those of floats. Returns
/// how many.
std::size_t expand_rare_ops(ir::Module* module);

}  // namespace tessera::passes
