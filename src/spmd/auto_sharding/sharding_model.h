// SPDX-License-Identifier: Apache-2.0
// The choice of shardings of a module as pairwise models.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/cost/machine.h"
#include "src/spmd/auto_sharding/pairwise_model.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd::auto_sharding {

/// Variables are arrays, or several that have one sharding: what elementwise ops join. The states
/// of one are all shardings that divide it evenly, and that which it has; of one whose sharding the
/// program states, just that. Factors are ops; their states are the ways to share out their work
/// among the mesh axes. Costs are seconds, times how often the computation around runs: work at the
/// factors, reshards at the edges.
class ShardingModel {
 public:
  /// `propagation` has run on the module; arrays have the shardings that it gave them.
  /// `passes_of_held`: what each byte of a shard costs, in passes over memory, wherever an array is
  /// made or resharded: the price of memory.
  ShardingModel(const ir::Module& module, const Propagation& propagation,
                const cost::Machine& machine, double passes_of_held);
  ~ShardingModel();

  /// Groups of mesh axes that shardings use together. States place them as a whole.
  std::size_t groups() const;
  /// The model in which these groups may be anywhere, and all others stay where they are.
  const PairwiseModel& build(const std::vector<std::size_t>& groups);
  /// Shards all arrays and ops as an assignment of the last model says.
  void take(const Assignment& assignment);
  /// Of all arrays that propagation may choose, where that is possible.
  std::vector<Propagation::Pin> pins() const;

 private:
  class Builder;
  std::unique_ptr<Builder> builder_;
};

}  // namespace tessera::spmd::auto_sharding
