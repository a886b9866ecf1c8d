// SPDX-License-Identifier: Apache-2.0
// Assignments of low cost, compared with those that trying all of them gives.
#include "src/spmd/auto_sharding/pairwise_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace tessera::testing {
namespace pairwise_model_test {

using spmd::auto_sharding::Assignment;
using spmd::auto_sharding::PairwiseModel;

/// Variables in a row, or a ring, with a factor between neighbours.
PairwiseModel chain(std::mt19937* random, int variables, int states, bool ring) {
  std::uniform_real_distribution<double> cost(0, 10);
  const auto costs = [&](int n) {
    std::vector<double> out(static_cast<std::size_t>(n));
    for (double& c : out) c = cost(*random);
    return out;
  };
  PairwiseModel model;
  int last = model.add_node(costs(states), false);
  const int first = last;
  for (int v = 1; v < variables + (ring ? 1 : 0); ++v) {
    const int factor_states = states + 1;
    const int factor = model.add_node(costs(factor_states), true);
    const int next = v < variables ? model.add_node(costs(states), false) : first;
    for (const int end : {last, next}) {
      PairwiseModel::Edge edge;
      edge.variable = end;
      edge.factor = factor;
      edge.columns = 2;
      edge.cost = costs(states * 2);
      std::vector<int> column;
      for (int k = 0; k < factor_states; ++k) column.push_back(k % 2);
      edge.column = column;
      model.add_edge(edge);
    }
    last = next;
  }
  return model;
}

double least_of_all(const PairwiseModel& model) {
  std::vector<int> states(model.nodes.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    least = std::min(least, with_best_factors(model, states).cost);
    std::size_t n = 0;
    for (; n < states.size(); ++n) {
      if (model.nodes[n].is_factor) continue;
      if (++states[n] < int(model.nodes[n].cost.size())) break;
      states[n] = 0;
    }
    if (n == states.size()) return least;
  }
}

TEST(PairwiseModel, IsSolvedExactlyWhereItIsATree) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 40; ++trial) {
    const PairwiseModel model = chain(&random, 6, 4, /*ring=*/false);
    const Assignment found = minimize(model, std::vector<int>(model.nodes.size(), 0));
    const double least = least_of_all(model);
    EXPECT_NEAR(found.cost, least, 1e-9) << "trial " << trial;
    EXPECT_NEAR(with_best_factors(model, found.states).cost, found.cost, 1e-9);
  }
}

TEST(PairwiseModel, IsSolvedWellWhereItGoesRound) {
  std::mt19937 random(12);
  int exact = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const PairwiseModel model = chain(&random, 6, 4, /*ring=*/true);
    const Assignment found = minimize(model, std::vector<int>(model.nodes.size(), 0));
    const double least = least_of_all(model);
    EXPECT_GE(found.cost, least - 1e-9);
    EXPECT_LE(found.cost, least * 1.2) << "trial " << trial;
    exact += found.cost <= least + 1e-9;
  }
  EXPECT_GE(exact, 36);
}

TEST(PairwiseModel, NeverEndsAboveItsStart) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 40; ++trial) {
    const PairwiseModel model = chain(&random, 12, 5, trial % 2 == 0);
    std::vector<int> start(model.nodes.size(), 0);
    for (std::size_t n = 0; n < start.size(); ++n) {
      start[n] = int(random() % model.nodes[n].cost.size());
    }
    EXPECT_LE(minimize(model, start).cost, with_best_factors(model, start).cost);
  }
}

TEST(PairwiseModel, OneVariableMayBeAllThereIs) {
  PairwiseModel model;
  model.add_node({3, 1, 2}, false);
  const Assignment found = minimize(model, {0});
  EXPECT_EQ(found.states, std::vector<int>{1});
  EXPECT_EQ(found.cost, 1);
}

}  // namespace pairwise_model_test
}  // namespace tessera::testing
