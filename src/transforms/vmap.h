// SPDX-License-Identifier: Apache-2.0
// vmap: a program for a batch of arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/ir/module.h"

namespace tessera::transforms {

/// The program that does for `size` entries at once what `module` does for one. `axes`: for each
/// parameter of the entry computation the dim along which it holds the entries, or kNotBatched
/// (batching/batch.h); that dim is inserted. All results are batched on dim 0. Aliases of inputs
/// and outputs are dropped; shardings are kept, the batch left to propagation. ValueError for axes
/// that don't fit the parameters.
std::unique_ptr<ir::Module> vmap(const ir::Module& module, std::span<const std::int64_t> axes,
                                 std::int64_t size);

}  // namespace tessera::transforms
