// SPDX-License-Identifier: Apache-2.0
// A compact form of shardings, and an estimate of what moving between two of them costs.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/cost/machine.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd::auto_sharding {

/// Where the mesh axes stand, as a number of Placements, and the bytes of a shard.
struct Placement {
  int number = 0;
  double shard_bytes = 0;  ///< of one device
  friend bool operator==(const Placement& a, const Placement& b) { return a.number == b.number; }
};

/// All placements that were met on a mesh, and the prices of going from one to another.
class Placements {
 public:
  Placements(MeshRef mesh, cost::Machine machine);

  Placement of(const TensorSharding& sharding, const Dims& dims, std::int64_t element_bytes);
  /// In seconds, about what the reshard planner's price is (reshard/planner.h), without a search:
  /// partial sums are scattered or reduced, slices taken, axes exchanged between dims, shards
  /// permuted and gathered, one collective each.
  double price(const Placement& from, const Placement& to);

 private:
  /// Of an axis: on which dim, in which place.
  struct At {
    std::int8_t dim, place;
    friend bool operator==(const At&, const At&) = default;
  };
  /// One collective of a move, for a shard of one byte.
  struct Step {
    ir::Opcode kind;
    double bytes;
    cost::Route route;
  };
  struct Move {
    int collectives = -1;  ///< -1: not known yet
    int first_step = 0;    ///< where links differ
    double bytes = 0;
  };
  void find(int from, int to, Move* move);

  const MeshRef mesh_;
  const cost::Machine machine_;
  std::vector<std::vector<At>> all_;             ///< by number and axis
  std::unordered_map<std::string, int> number_;  ///< by what `all_` has
  std::vector<std::vector<Move>> moves_;         ///< by the numbers of both ends
  std::vector<Step> steps_;                      ///< of one move after the other
};

}  // namespace tessera::spmd::auto_sharding
