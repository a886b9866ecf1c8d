// SPDX-License-Identifier: Apache-2.0
// What ops that move rows cost along a dim that is split: devices exchange rows once for a whole
// stencil (partitioner/stencils), of which each op pays its part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/cost/machine.h"
#include "src/ir/module.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::auto_sharding {

/// Whether ops of the program move arrays by a few rows, or look at neighbours through windows.
bool has_shifts(const ir::Module& module);

class HaloPrices {
 public:
  /// `known`: otherwise no op of the graph moves rows, as far as this tells.
  HaloPrices(const propagation::Graph& graph, MeshRef mesh, cost::Machine machine, bool known);

  /// The ops of the graph, by rules that let axes split dims along which ops of stencils move rows,
  /// evenly or not.
  const std::vector<propagation::Op>& ops() const { return ops_; }
  bool any() const { return !rules_.empty(); }
  bool moves_rows(std::size_t op) const { return !moves_[op].empty(); }
  /// Whether the value stands in a stencil along that dim: its parts may be uneven.
  bool may_be_uneven(int value, std::size_t dim) const;
  /// Seconds of one run of an op that is shared out so.
  double of(std::size_t op, const std::vector<IndexList>& factor_axes);

 private:
  /// A factor along which an op moves rows, and where it is in the result.
  struct Moved {
    int factor = 0;
    std::int64_t dim = 0;
  };
  struct Part {
    double permutes = 0, seconds = 0;
  };
  using Key = std::pair<std::int64_t, IndexList>;  ///< of the dim, and axes

  void find_moves(std::size_t op);
  Part part_of(const ir::Instruction& x, std::int64_t dim, const IndexList& axes);

  const MeshRef mesh_;
  const cost::Machine machine_;
  std::vector<propagation::Op> ops_;
  std::deque<FactorRule> rules_;
  std::vector<std::vector<Moved>> moves_;                        ///< by op
  std::vector<std::vector<char>> uneven_;                        ///< by value and dim; empty: none
  std::map<Key, std::map<const ir::Instruction*, Part>> parts_;  // looked up, never walked
};

}  // namespace tessera::spmd::auto_sharding
