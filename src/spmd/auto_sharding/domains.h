// SPDX-License-Identifier: Apache-2.0
// The shardings among which the solver chooses one for an array.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/spmd/auto_sharding/halo_prices.h"
#include "src/spmd/auto_sharding/model_state.h"
#include "src/spmd/auto_sharding/placement.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd::auto_sharding {

/// Shardings of an array, the present one first, and those of others like it.
struct Domain {
  std::vector<TensorSharding> shardings;
  std::vector<Placement> placements;
  std::vector<double> parts;  ///< into which each cuts the work
  int number = -1;            ///< equal placements have the same
};

class Domains {
 public:
  /// Which arrays are open is as the propagation has it now.
  Domains(const ModelState& state, const Propagation& propagation, const HaloPrices* halos,
          Placements* placements);
  /// Of a variable, by its values; of those that are alike one.
  std::shared_ptr<const Domain> of(const std::vector<int>& members);

 private:
  Domain make(const std::vector<int>& members);
  void add_states(int root, TensorSharding state, std::vector<TensorSharding>* domain) const;

  const ModelState& state_;
  const Propagation& propagation_;
  const HaloPrices& halos_;
  Placements& placements_;
  std::vector<char> is_open_;  ///< by value: not stated by the program
  std::unordered_map<std::string, std::shared_ptr<const Domain>> known_;
  std::unordered_map<std::string, int> numbers_;  ///< by their placements
};

}  // namespace tessera::spmd::auto_sharding
