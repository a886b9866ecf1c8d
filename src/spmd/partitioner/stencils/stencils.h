// SPDX-License-Identifier: Apache-2.0
// Stencils along split dims, before their ops get layouts: each device fetches the rows that it
// needs of its neighbours' once, and computes its part of all arrays in between from them
// (region.h), whatever the lengths of these are.
//
// On global shapes a window of r rows on each of w devices is an array of w r rows, of which each
// device has r. Rows at an offset are a slice of it seen as [w, r]; a halo is a slice of a
// neighbour's block, shifted along w.
//
//   y = x[2:] - x[:-2], x f32[1024] split by 8:
//     above = pad(x as [8, 128] [:, :2], one block on)          a permute of 2 rows
//     z = concatenate(x as [8, 128], above) as [1040]           130 rows on each device
//     y = (z as [8, 130] [:, 2:] - z as [8, 130] [:, :128]) as [1024] [:1022]
#pragma once

#include "src/ir/module.h"
#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/partition_options.h"

namespace tessera::spmd {

/// Whether there is something to look at.
bool may_have_stencils(const ir::Module& module);
/// Rewrites those of a propagated module that it pays for. `origins` has all its instructions, and
/// gets those that are made: each is what that is which it is for. Returns how many stencils.
std::size_t expand_stencils(ir::Module* module, const PartitionOptions& options, Origins* origins);

/// On one device: several steps of loops over large arrays at once, in windows that go around their
/// ends, so that steps are shifts of one array. Returns how many loops.
std::size_t tile_stencil_loops(ir::Module* module, const PartitionOptions& options = {});

}  // namespace tessera::spmd
