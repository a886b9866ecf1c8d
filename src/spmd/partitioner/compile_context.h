// SPDX-License-Identifier: Apache-2.0
// What a compilation works out once, however often it partitions.
#pragma once

#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {

/// Programs repeat their layers, and a search partitions one program many times. What is kept
/// depends on its key only, so that a later compilation may go on with the context of an earlier
/// one. For one thread at a time.
struct CompileContext {
  CompileContext() = default;
  CompileContext(const CompileContext&) = delete;
  CompileContext& operator=(const CompileContext&) = delete;

  ReshardPlanner reshards;
  LayoutPlanner layouts{reshards};
};

}  // namespace tessera::spmd
