// SPDX-License-Identifier: Apache-2.0
// The choice of shardings of a module as pairwise models.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/cost/machine.h"
#include "src/spmd/auto_sharding/domains.h"
#include "src/spmd/auto_sharding/pairwise_model.h"
#include "src/spmd/auto_sharding/strategies.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd::auto_sharding {

/// Variables are arrays, or several that have one sharding: what elementwise ops join. The states
/// of one are all shardings that divide it evenly, and that which it has; of one whose sharding the
/// program states, just that. Factors are ops; their states are the ways to share out their work
/// among the mesh axes. Costs are seconds, times how often the computation around runs: work at the
/// factors, reshards at the edges.
class ShardingModel {
 public:
  /// `propagation` has run on the module, without pins; arrays have the shardings that it gave
  /// them. What it runs with later is of no concern here. `halos`: with the prices of stencils
  /// (halo_prices.h); otherwise each op that moves rows does what its factor rule says.
  ShardingModel(const ir::Module& module, const Propagation& propagation,
                const cost::Machine& machine, bool halos);
  ~ShardingModel();

  /// Back to the shardings of the start, at a price of memory, which is 0 at first: in passes over
  /// memory, what each byte of a shard costs wherever an array is made or resharded, and what more
  /// where it is marked.
  void restart(double passes, double more = 0);
  /// The price alone, for models that are built from then on.
  void set_price_of_memory(double passes);
  /// Marks arrays, and ops with all that is resharded for them, besides those that are marked.
  void mark(const std::vector<char>& values, const std::vector<char>& ops);
  /// Whether it has any such prices.
  bool has_halos() const;
  /// Groups of mesh axes that shardings use together. States place them as a whole.
  std::size_t groups() const;
  /// The model in which these groups may be anywhere, and all others stay where they are.
  const PairwiseModel& build(const std::vector<std::size_t>& groups);
  /// What a node of the last model stands for: an op and the ways to share out its work, or an
  /// array and its shardings. State 0 is the present one.
  struct Node {
    int op = -1;    ///< of a factor
    int root = -1;  ///< of a variable: one of its values
    std::shared_ptr<const std::vector<FactorAxes>> strategies;
    std::shared_ptr<const Domain> domain;
  };
  const std::vector<Node>& nodes() const;
  /// The values that are one variable with a node's.
  const std::vector<int>& members(int root) const;
  /// By edge of the last model: which tensors of the op the variable is, operands before results.
  const std::vector<std::vector<std::size_t>>& tensors_of_edges() const;
  /// By node, what an assignment of the last model holds: the bytes that have the price of memory.
  /// Nodes are in the same order in all models.
  std::vector<double> held_bytes(const Assignment& assignment) const;
  /// Of these the marked ones together.
  double marked_bytes(const std::vector<double>& held) const;
  /// Shards all arrays and ops as an assignment of the last model says.
  void take(const Assignment& assignment);
  /// Of an array, as the last assignment says.
  const TensorSharding& sharding_of(int value) const;
  /// What the last model that was built leaves a value; empty: its sharding alone.
  std::span<const TensorSharding> choices_of(int value) const;
  /// Of all arrays that propagation may choose, where that is possible.
  std::vector<Propagation::Pin> pins() const;

 private:
  class Builder;
  std::unique_ptr<Builder> builder_;
};

}  // namespace tessera::spmd::auto_sharding
