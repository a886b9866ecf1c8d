// SPDX-License-Identifier: Apache-2.0
// Folding the batch into another dim, for ops that treat that dim's elements alike.
#pragma once

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

/// Dim `dim` of an entry becomes entries times that dim, entries outermost within each of `groups`
/// equal parts of it: [groups, entries, rest].
ir::Instruction* fold(BatchSite& site, const Batched& array, std::int64_t dim,
                      std::int64_t groups = 1);
/// The way back.
Batched unfold(BatchSite& site, ir::Instruction* array, std::int64_t dim, std::int64_t groups = 1);

}  // namespace tessera::transforms::batching
