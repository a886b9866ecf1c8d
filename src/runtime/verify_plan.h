// SPDX-License-Identifier: Apache-2.0
// A check of finished plans, for tests and for finding faults of what builds them.
#pragma once

#include "src/runtime/plan.h"

namespace tessera::runtime {

/// Throws InternalError if a step, a loop's condition or a result needs a slot that no step has
/// filled before it, or that is released by then. After `finalize`.
void verify_plan(const Plan& plan);

}  // namespace tessera::runtime
