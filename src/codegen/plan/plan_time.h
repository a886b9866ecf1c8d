// SPDX-License-Identifier: Apache-2.0
// Estimates how long a plan runs, to compare ways to run one program.
#pragma once

#include "src/runtime/plan.h"

namespace tessera::codegen {

/// In nanoseconds of one worker: each kernel by its arithmetic or by the memory that it goes
/// through, whichever takes longer (the roofline model), for each class of devices. Loops as often
/// as if they ran so many times; exchanges, which are the same in all ways, not at all.
double estimate_time(const runtime::Plan& plan);

}  // namespace tessera::codegen
