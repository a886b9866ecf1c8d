// SPDX-License-Identifier: Apache-2.0
// Arrays that have one sharding while shardings are solved for.
#pragma once

#include <map>
#include <vector>

#include "src/spmd/auto_sharding/model_state.h"

namespace tessera::spmd::auto_sharding {

/// What elementwise ops join is one variable, if the program leaves all of it open.
class Variables {
 public:
  explicit Variables(const ModelState& state);

  /// The first of the values that are one variable.
  int root_of(int value) const { return root_[std::size_t(value)]; }
  const std::vector<int>& members(int root) const { return members_.at(root); }
  /// By op: those that it makes or reads and no op before it.
  const std::vector<IndexList>& first_met() const { return first_met_; }

  /// An op of which operands and results of one shape are one variable.
  static bool joins(const propagation::Op& op);
  /// All that it reads and makes is one variable: it has nothing to choose.
  bool is_one(const propagation::Op& op) const;

 private:
  int find(int v);

  const ModelState& state_;
  std::vector<int> root_;
  std::map<int, std::vector<int>> members_;
  std::vector<IndexList> first_met_;
};

}  // namespace tessera::spmd::auto_sharding
