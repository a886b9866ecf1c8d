// SPDX-License-Identifier: Apache-2.0
// Collectives between the entries of the batch: plain ops along its dim.
#pragma once

#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

/// Whether the op is a collective over the batch that is being computed.
bool of_batch(const BatchSite& site);

// What they are; operands that are not batched are the same for all entries.
Batched reduced_over_batch(BatchSite& site);
Batched gathered_from_batch(BatchSite& site);
Batched scattered_over_batch(BatchSite& site);
Batched exchanged_in_batch(BatchSite& site);
Batched permuted_in_batch(BatchSite& site);

}  // namespace tessera::transforms::batching
