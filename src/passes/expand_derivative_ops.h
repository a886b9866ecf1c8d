// SPDX-License-Identifier: Apache-2.0
// remat and custom-derivative become what they run.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Puts the body of each remat, and the primal of each custom_derivative, in its place: only
/// transformations read what those say, and they come before. A remat that computes values again
/// does so behind an optimisation barrier on its operands, so that nothing joins them with those of
/// the first time. Returns how many.
///
///     remat(x, y), differentiated, body  =>  b = opt-barrier(tuple(x, y)); body(b.0, b.1)
std::size_t expand_derivative_ops(ir::Module* module);
/// The same in one computation of it and in what that calls.
std::size_t expand_derivative_ops_in(ir::Computation* computation);

}  // namespace tessera::passes
