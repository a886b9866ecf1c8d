// SPDX-License-Identifier: Apache-2.0
// Batch norms in terms of sums and elementwise ops.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Writes batch-norm-training, -inference and -grad as the sums over all dims but the features',
/// and the elementwise ops, that they stand for: these fuse with what is around them, and are
/// partitioned like others. Floats of less than 32 bits are computed in f32. Returns how many.
std::size_t expand_batch_norms(ir::Module* module);

}  // namespace tessera::passes
