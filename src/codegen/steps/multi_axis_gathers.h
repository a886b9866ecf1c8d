// SPDX-License-Identifier: Apache-2.0
// A plan pass that merges consecutive all-gathers.
#pragma once

#include "src/runtime/plan.h"

namespace tessera::codegen {

/// All-gathers of which one takes the other's result, and nobody else does, become one step: a
/// device then holds its part and the full array, never what is in between.
void merge_multi_axis_gathers(runtime::Plan* plan);

}  // namespace tessera::codegen
