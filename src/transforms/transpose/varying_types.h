// SPDX-License-Identifier: Apache-2.0
// Linear code per device, with each change from equal to different values as an op of its own.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::transforms {

/// On an all-reduce of a linear body: "equal" if all devices of a group have what it gives as one
/// value, of which there is one cotangent; "different" if each device has its own.
inline constexpr const char* kSumIs = "tessera.sum_is";

/// A copy of the body of `manual_computation`, which is linear in these operands, nested
/// computations included, that can be transposed op by op. Each value has the set of manual axes
/// over which it varies: of a cotangent it says which devices hold parts of it that are yet to be
/// added up. Where a value meets one that varies over more axes, the copy has a pvary, whose
/// transpose adds up. A result whose sharding lacks an axis over which it varies is a mean over it.
///
///     (w: equal on all, x: shards) -> dot(x, w)    =>    dot(x, pvary(w))
///
/// What all-gathers and the like give counts as varying, as in JAX. Types of what is not linear
/// come from ir::VaryingAnalysis. After JAX's shard_map with check_vma.
ir::Computation* with_explicit_pvary(const ir::Instruction& manual_computation,
                                     const std::vector<bool>& linear);

}  // namespace tessera::transforms
