// SPDX-License-Identifier: Apache-2.0
// What the solver chose for each array, what that costs, and what the next best choice would.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd {

namespace auto_sharding {
class ShardingModel;
}

/// Of an array that the program leaves open, or of several that elementwise ops join. Times are
/// seconds in all runs of the computations around, by the solver's estimate, which a price for
/// memory isn't part of. "Next best": with the other sharding, all other arrays as they are, and
/// each op around it sharing out its work anew.
struct ShardingDecision {
  /// One array by the name of its computation and instruction: modules are copied and optimised.
  struct Array {
    std::string computation, instruction;
    std::size_t leaf = 0;
    friend bool operator==(const Array&, const Array&) = default;
  };
  /// An op that reads or makes the array.
  struct Edge {
    Array op;                     ///< its first result
    std::ptrdiff_t operand = -1;  ///< -1: the array is a result
    TensorSharding needed;        ///< of the op, as its work is shared out
    double seconds = 0;           ///< of the reshard between
    double next_seconds = 0;      ///< of the reshard with the next best sharding
  };
  std::vector<Array> arrays;  ///< in the order of the program
  TensorSharding chosen;
  double seconds = 0;  ///< of its reshards, and of the work of the ops around
  std::optional<TensorSharding> next;
  double next_seconds = 0;
  std::vector<Edge> edges;
};

/// Of all arrays that the model leaves open, as it has them now, in the order of the program. The
/// propagation is the model's,.
std::vector<ShardingDecision> sharding_decisions(const Propagation& propagation,
                                                 auto_sharding::ShardingModel* choice);

}  // namespace tessera::spmd
