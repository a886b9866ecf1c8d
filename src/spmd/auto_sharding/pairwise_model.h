// SPDX-License-Identifier: Apache-2.0
// Choices that cost something by themselves and in pairs, and an assignment that costs little.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::spmd::auto_sharding {

/// A pairwise Markov random field with two kinds of nodes: variables (arrays, whose states are
/// shardings) and factors (ops, whose states are ways to share out their work). Edges join a
/// variable to a factor, and cost what lies between an array's sharding and that which the op
/// needs of it; many states of a factor need the same.
struct PairwiseModel {
  /// Numbers that don't change: programs repeat their layers, and edges that are equal share them.
  template <class T>
  class Shared {
   public:
    Shared() = default;
    Shared(std::vector<T> list)  // NOLINT: lists are shared as they are taken in
        : list_(std::make_shared<const std::vector<T>>(std::move(list))) {}
    T operator[](std::size_t k) const { return (*list_)[k]; }
    std::size_t size() const { return list_->size(); }
    const T* data() const { return list_->data(); }

   private:
    std::shared_ptr<const std::vector<T>> list_;
  };
  struct Node {
    std::vector<double> cost;  ///< by state
    bool is_factor = false;
    std::vector<int> edges;
  };
  struct Edge {
    int variable = 0, factor = 0;
    int columns = 0;
    Shared<double> cost;  ///< [state of the variable][column]
    Shared<int> column;   ///< by state of the factor
    double at(int state, int column_at) const {
      return cost[std::size_t(state) * std::size_t(columns) + std::size_t(column_at)];
    }
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;

  int add_node(std::vector<double> cost, bool is_factor);
  void add_edge(Edge edge);
};

struct Assignment {
  std::vector<int> states;  ///< by node
  double cost = 0;
  double bound = 0;  ///< that no assignment costs less than, where it was looked for
};

/// Of all factors the best state, given the variables'.
Assignment with_best_factors(const PairwiseModel& model, std::vector<int> states);

/// An assignment of low cost, never worse than `start`: exact where nodes can be eliminated one by
/// one (elimination.h). Elsewhere sequential tree-reweighted message passing (TRW-S; Kolmogorov,
/// 2006) gives a bound and a first assignment, of which elimination then solves all but a few
/// nodes, others each time.
Assignment minimize(const PairwiseModel& model, const std::vector<int>& start);

}  // namespace tessera::spmd::auto_sharding
