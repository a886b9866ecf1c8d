// SPDX-License-Identifier: Apache-2.0
// Loop tiling of a finished plan: steps that go through the same rows one after the other become
// one step, which does all of them for a block of rows at a time.
#pragma once

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Joins chains of kernels whose large intermediate arrays nothing else reads. Of attention,
///
///   s = dot(q, k)   m = reduce max(s)   e = exp(s - m)   t = reduce add(e)   p = e / t   o =
///   dot(p, v)
///
/// all six are one step then: a block of rows of s, e and p is in scratch memory, so that neither
/// the memory traffic nor the memory of the plan grows with the square of the sequence. Kernels
/// that read the rows of one large array are joined, too: of several reductions of it, each reads a
/// block while it is in cache. Before memory is planned.
void tile_chains(runtime::Plan* plan, KernelTable* kernels);

}  // namespace tessera::codegen
