// SPDX-License-Identifier: Apache-2.0
// Loop tiling of a finished plan: steps that go through the same rows one after the other become
// one step, which does all of them for a block of rows at a time.
// Also called: tile-and-fuse.
#pragma once

#include <set>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Steps that became one, and those that were left out as memory would have been held longer.
struct JoinedChain {
  std::set<runtime::SlotId> made;   ///< row by row, those in scratch memory among them
  std::set<runtime::SlotId> links;  ///< first results of its steps
};

/// Joins chains of kernels whose large intermediate arrays nothing else reads. Of attention,
///
///   s = dot(q, k)   m = reduce max(s)   e = exp(s - m)   t = reduce add(e)   p = e / t   o =
///   dot(p, v)
///
/// all six are one step then: a block of rows of s, e and p is in scratch memory, so that neither
/// the memory traffic nor the memory of the plan grows with the square of the sequence. Kernels
/// that read the rows of one large array are joined, too: of several reductions of it, each reads a
/// block while it is in cache. Products that take a result whole, as sums over its rows, are added
/// up as the rows are made:
///
///     of_k = dot(transpose(of_s), q)
///
/// has parts, of so many rows each, that are the same whoever makes them. `rematerialized`: what is
/// made again for readers joins these alone. Before memory is planned.
std::vector<JoinedChain> tile_chains(runtime::Plan* plan, KernelTable* kernels,
                                     const std::set<runtime::SlotId>& rematerialized = {});

}  // namespace tessera::codegen
