// SPDX-License-Identifier: Apache-2.0
// Linear code per device, with each change from equal to different values as an op of its own.
#pragma once

#include <vector>

#include "src/ir/analysis/varying_axes.h"
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

/// Code per device, of which the shard_map around it is not part.
struct CodePerDevice {
  MeshRef mesh;          ///< the program's
  ir::VaryingAxes axes;  ///< those that are manual
  /// Over which of them each parameter and each result of a computation varies.
  std::vector<ir::VaryingAxes> parameters, results;
  /// Whether types are known and hold (check_vma). If not, each device is taken to have a value of
  /// its own of everything, and a sum over devices has the same sum as its transpose.
  bool checked = true;
};

/// The same for a computation of arrays with a tuple of arrays as its root.
ir::Computation* with_explicit_pvary(ir::Computation* code, const std::vector<bool>& linear,
                                     CodePerDevice types);

/// Over which axes the values of this computation, of code per device, vary.
ir::VaryingAnalysis varying_in(ir::Computation* code, const CodePerDevice& types);

}  // namespace tessera::transforms
