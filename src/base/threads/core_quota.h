// SPDX-License-Identifier: Apache-2.0
// How many cores a container may use.
#pragma once

namespace tessera {

/// CPUs that the control group's quota allows, rounded up; 0 if there is none.
int core_quota();

}  // namespace tessera
