// SPDX-License-Identifier: Apache-2.0
// Dots of batches of several dims, where reshapes made one dim of these.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Producers merge the dims of a batch in front of a dot, as PyTorch does for its bmm, and split
/// them behind it. What stands between such dots, as a softmax, and transposes in front of them are
/// seen through no reshape: the dot has these dims as they were. Returns how many do.
///
///     dot(reshape(x[b,h,m,k]), reshape(y[b,h,k,n])) = reshape(dot(x, y))
std::size_t split_batches(ir::Module* module);

}  // namespace tessera::passes
