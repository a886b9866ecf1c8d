// SPDX-License-Identifier: Apache-2.0
// The exact minimum of a pairwise model, or of most of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/spmd/auto_sharding/pairwise_model.h"

namespace tessera::spmd::auto_sharding {

/// out[x] = min(out[x], row[x] + base)
inline void lower_to(double* out, const double* row, double base, std::size_t width) {
  // Four at a time, which compilers make vector code of.
  std::size_t x = 0;
  for (; x + 4 <= width; x += 4) {
    double cost[4];
    for (std::size_t j = 0; j < 4; ++j) cost[j] = row[x + j] + base;
    for (std::size_t j = 0; j < 4; ++j) out[x + j] = cost[j] < out[x + j] ? cost[j] : out[x + j];
  }
  for (; x < width; ++x) out[x] = std::min(out[x], row[x] + base);
}

/// Bucket elimination (Dechter, 1999): a node's least cost, for all states of its neighbours, takes
/// the node's place as a table; what is cheapest to eliminate goes first. That needs time and
/// memory by the product of the states of a node and its neighbours. Programs are nearly trees,
/// so that few have a node for which this is too much; then some nodes keep the states that they
/// have, and the rest is solved around them.
class Elimination {
 public:
  explicit Elimination(const PairwiseModel& model) : Elimination(model, kAllStates, false) {}
  /// Whether a model would be solved exactly that has no more than so many states of each node.
  static bool is_exact_with(const PairwiseModel& model, std::size_t states) {
    return Elimination(model, states, /*only_exact=*/true).is_exact();
  }

  /// No node has to keep its state: a round finds an assignment that none is cheaper than.
  bool is_exact() const { return kept_.empty(); }
  /// The cheapest states of all nodes that don't keep theirs; of equal ones the first. Another
  /// round keeps other nodes, as far as there are any.
  std::vector<int> round(std::vector<int> states);

 private:
  /// Costs by the states of some nodes, in the order in which these are eliminated; the last one's
  /// states are next to each other.
  struct Table {
    std::span<const int> scope;
    std::span<double> values;
  };
  /// Numbers that live as long as a round, one after the other in blocks of memory.
  class Numbers {
   public:
    std::span<double> take(std::size_t count);
    /// The last ones that were taken.
    void give_back(std::span<double> last) { left_ = {last.data(), left_.size() + last.size()}; }
    void clear();

   private:
    std::vector<std::vector<double>> blocks_;
    std::size_t used_ = 0;    ///< blocks
    std::span<double> left_;  ///< of the last one
  };
  static constexpr std::size_t kAllStates = std::size_t(-1);

  /// `only_exact`: there is no plan where a node would have to keep its state.
  Elimination(const PairwiseModel& model, std::size_t most_states, bool only_exact);
  void plan(bool only_exact = false);
  /// The node that stands in the way most, of those that were kept least often.
  int next_to_keep(const std::vector<std::vector<int>>& neighbors, const std::vector<char>& gone,
                   const std::vector<std::int64_t>& log_states) const;
  std::size_t states_of(int node) const {
    return std::min(most_states_, model_.nodes[std::size_t(node)].cost.size());
  }
  /// The first of the cheapest states of a node and its bucket, in an assignment of those after it.
  int best_state(int node, const std::vector<int>& states);
  /// A table without values yet.
  Table start_table(std::span<const int> scope);
  void add(const Table& table);
  void eliminate(int node);

  const PairwiseModel& model_;
  const std::size_t most_states_;
  std::vector<int> order_, kept_;
  std::vector<int> place_;               ///< by node: in order_; -1 of those kept
  std::vector<std::vector<int>> scope_;  ///< by node: those it has to do with when it is eliminated
  std::vector<int> times_kept_;          ///< by node
  std::vector<std::array<int, 2>> edge_scope_;  ///< by edge
  Numbers numbers_;
  std::vector<std::span<double>> own_;      ///< by node: costs, with edges to those kept
  std::vector<std::vector<Table>> bucket_;  ///< by node: tables of which it is the first
  std::vector<double> costs_;               ///< by state of one node
};

}  // namespace tessera::spmd::auto_sharding
