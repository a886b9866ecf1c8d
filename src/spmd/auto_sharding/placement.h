// SPDX-License-Identifier: Apache-2.0
// A compact form of shardings, and an estimate of what moving between two of them costs.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/shape.h"
#include "src/cost/machine.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd::auto_sharding {

/// Where each mesh axis is: on which dim, in which place.
struct Placement {
  static constexpr std::int8_t kUnused = -1, kUnreduced = -2;
  struct At {
    std::int8_t dim = kUnused, place = 0;
    friend bool operator==(const At&, const At&) = default;
  };
  std::vector<At> axes;    ///< by axis of the mesh
  double shard_bytes = 0;  ///< of one device
  friend bool operator==(const Placement& a, const Placement& b) { return a.axes == b.axes; }
};

Placement placement_of(const TensorSharding& sharding, const LogicalMesh& mesh, const Dims& dims,
                       std::int64_t element_bytes);

/// In seconds, about what the reshard planner's price is (reshard/planner.h), without a search:
/// partial sums are scattered or reduced, slices taken, axes exchanged between dims, shards
/// permuted and gathered, one collective each.
double estimated_price(const Placement& from, const Placement& to, const LogicalMesh& mesh,
                       const cost::Machine& machine);

}  // namespace tessera::spmd::auto_sharding
