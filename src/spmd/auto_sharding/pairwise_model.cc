// SPDX-License-Identifier: Apache-2.0
// Message passing and descent on pairwise models.
#include "src/spmd/auto_sharding/pairwise_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "src/spmd/auto_sharding/elimination.h"

namespace tessera::spmd::auto_sharding {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Edge = PairwiseModel::Edge;
using Node = PairwiseModel::Node;
/// Costs that differ by this much of them are the same.
constexpr double kSame = 1e-9;

int argmin(const std::vector<double>& costs) {
  return int(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

class MessagePassing {
 public:
  explicit MessagePassing(const PairwiseModel& model) : model_(model) {
    for (const Edge& e : model_.edges) {
      to_factor_.emplace_back(std::size_t(e.columns), 0.0);
      to_variable_.emplace_back(model_.nodes[std::size_t(e.variable)].cost.size(), 0.0);
    }
    for (std::size_t s = 0; s < model_.nodes.size(); ++s) {
      std::size_t lower = 0;
      for (const int e : model_.nodes[s].edges) lower += other_end(e, int(s)) < int(s);
      const std::size_t most = std::max(lower, model_.nodes[s].edges.size() - lower);
      share_.push_back(most > 0 ? 1 / double(most) : 1);
    }
    states_.assign(model_.nodes.size(), 0);
    marginals_.resize(model_.nodes.size());
  }

  /// Decodes an assignment on the way.
  const std::vector<int>& sweep(bool forward) {
    const int n = int(model_.nodes.size());
    bound_ = 0;
    for (int k = 0; k < n; ++k) visit(forward ? k : n - 1 - k, forward);
    return states_;
  }
  /// By node and state: what the last sweep found the rest to cost at least, in part.
  const std::vector<std::vector<double>>& marginals() const { return marginals_; }
  /// That no assignment costs less than, by the last sweep.
  double bound() const { return bound_; }

 private:
  int other_end(int edge, int node) const {
    const Edge& e = model_.edges[std::size_t(edge)];
    return e.variable == node ? e.factor : e.variable;
  }

  void add_message(int edge, bool to_factor, std::vector<double>* costs) const {
    const Edge& e = model_.edges[std::size_t(edge)];
    if (to_factor) {
      const std::vector<double>& m = to_factor_[std::size_t(edge)];
      for (std::size_t k = 0; k < costs->size(); ++k) (*costs)[k] += m[std::size_t(e.column[k])];
    } else {
      const std::vector<double>& m = to_variable_[std::size_t(edge)];
      for (std::size_t k = 0; k < costs->size(); ++k) (*costs)[k] += m[k];
    }
  }

  void visit(int s, bool forward) {
    const Node& node = model_.nodes[std::size_t(s)];
    std::vector<double>&costs = costs_, &decided = decided_;
    costs = decided = node.cost;
    for (const int e : node.edges) {
      add_message(e, node.is_factor, &costs);
      const bool visited = (other_end(e, s) < s) == forward;
      if (visited) {
        add_decided(e, s, &decided);
      } else {
        add_message(e, node.is_factor, &decided);
      }
    }
    states_[std::size_t(s)] = argmin(decided);
    marginals_[std::size_t(s)] = costs;
    const double least = *std::min_element(costs.begin(), costs.end());
    bound_ += least;
    for (double& c : costs) c = (c - least) * share_[std::size_t(s)];
    for (const int e : node.edges) {
      if ((other_end(e, s) > s) == forward) send(e, node.is_factor, costs);
    }
  }

  /// What the edge costs, given the state of its other end.
  void add_decided(int edge, int s, std::vector<double>* costs) const {
    const Edge& e = model_.edges[std::size_t(edge)];
    const int other = states_[std::size_t(other_end(edge, s))];
    for (std::size_t k = 0; k < costs->size(); ++k) {
      (*costs)[k] +=
          e.factor == s ? e.at(other, e.column[k]) : e.at(int(k), e.column[std::size_t(other)]);
    }
  }

  void send(int edge, bool from_factor, const std::vector<double>& costs) {
    const Edge& e = model_.edges[std::size_t(edge)];
    std::vector<double>&to_factor = to_factor_[std::size_t(edge)],
    &to_variable = to_variable_[std::size_t(edge)];
    if (from_factor) {
      least_.assign(std::size_t(e.columns), kInfinity);
      for (std::size_t k = 0; k < costs.size(); ++k) {
        double& least = least_[std::size_t(e.column[k])];
        least = std::min(least, costs[k]);
      }
      for (std::size_t c = 0; c < least_.size(); ++c) least_[c] -= to_factor[c];
      const double* row = e.cost.data();
      for (double& to : to_variable) {
        to = least_sum(least_.data(), row, least_.size());
        row += least_.size();
      }
      normalize(&to_variable);
    } else {
      std::fill(to_factor.begin(), to_factor.end(), kInfinity);
      const double* row = e.cost.data();
      for (std::size_t x = 0; x < costs.size(); ++x, row += to_factor.size()) {
        lower_to(to_factor.data(), row, costs[x] - to_variable[x], to_factor.size());
      }
      normalize(&to_factor);
    }
  }

  /// Least a[k] + b[k]; in four lanes, as each minimum waits for the one before.
  static double least_sum(const double* a, const double* b, std::size_t n) {
    double lanes[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4) {
      for (std::size_t j = 0; j < 4; ++j) lanes[j] = std::min(lanes[j], a[k + j] + b[k + j]);
    }
    for (; k < n; ++k) lanes[0] = std::min(lanes[0], a[k] + b[k]);
    return std::min(std::min(lanes[0], lanes[1]), std::min(lanes[2], lanes[3]));
  }

  void normalize(std::vector<double>* message) {
    const double least = *std::min_element(message->begin(), message->end());
    bound_ += least;
    for (double& m : *message) m -= least;
  }

  const PairwiseModel& model_;
  std::vector<std::vector<double>> to_factor_;    ///< by edge and column
  std::vector<std::vector<double>> to_variable_;  ///< by edge and state
  std::vector<double> share_;
  std::vector<int> states_;
  std::vector<std::vector<double>> marginals_;
  double bound_ = 0;
  std::vector<double> costs_, decided_, least_;  ///< of one visit
};

/// A model with some of the states of each node.
struct Restriction {
  PairwiseModel model;
  std::vector<std::vector<int>> states;  ///< by node: of the other model
};

/// The `count` states of each node that look best by `marginals`, and those of `now`.
Restriction restricted(const PairwiseModel& model,
                       const std::vector<std::vector<double>>& marginals,
                       const std::vector<int>& now, std::size_t count) {
  Restriction out;
  for (std::size_t n = 0; n < model.nodes.size(); ++n) {
    const std::vector<double>& by = marginals[n];
    std::vector<int> order(by.size());
    std::iota(order.begin(), order.end(), 0);
    const std::size_t kept = std::min(count, order.size());
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(kept), order.end(),
                      [&](int a, int b) {
                        const double x = by[std::size_t(a)], y = by[std::size_t(b)];
                        return x != y ? x < y : a < b;
                      });
    order.resize(kept);
    if (std::find(order.begin(), order.end(), now[n]) == order.end()) order.back() = now[n];
    std::sort(order.begin(), order.end());
    std::vector<double> costs;
    for (const int s : order) costs.push_back(model.nodes[n].cost[std::size_t(s)]);
    out.model.add_node(std::move(costs), model.nodes[n].is_factor);
    out.states.push_back(std::move(order));
  }
  for (const Edge& e : model.edges) {
    Edge edge;
    edge.variable = e.variable;
    edge.factor = e.factor;
    edge.columns = e.columns;
    std::vector<double> costs;
    for (const int s : out.states[std::size_t(e.variable)]) {
      for (int c = 0; c < e.columns; ++c) costs.push_back(e.at(s, c));
    }
    std::vector<int> column;
    for (const int s : out.states[std::size_t(e.factor)])
      column.push_back(e.column[std::size_t(s)]);
    edge.cost = std::move(costs);
    edge.column = std::move(column);
    out.model.add_edge(std::move(edge));
  }
  return out;
}

/// The best assignment of as many states that look best as can be solved exactly.
std::vector<int> best_of_likely(const PairwiseModel& model,
                                const std::vector<std::vector<double>>& marginals,
                                const std::vector<int>& now) {
  for (const std::size_t count : {16, 12, 9, 7, 5, 4, 3, 2}) {
    if (!Elimination::is_exact_with(model, count)) continue;
    const Restriction part = restricted(model, marginals, now, count);
    std::vector<int> states = Elimination(part.model).round(std::vector<int>(now.size(), 0));
    for (std::size_t n = 0; n < states.size(); ++n) {
      states[n] = part.states[n][std::size_t(states[n])];
    }
    return states;
  }
  return now;
}

}  // namespace

int PairwiseModel::add_node(std::vector<double> cost, bool is_factor) {
  nodes.push_back({std::move(cost), is_factor, {}});
  return int(nodes.size()) - 1;
}

void PairwiseModel::add_edge(Edge edge) {
  nodes[std::size_t(edge.variable)].edges.push_back(int(edges.size()));
  nodes[std::size_t(edge.factor)].edges.push_back(int(edges.size()));
  edges.push_back(std::move(edge));
}

Assignment with_best_factors(const PairwiseModel& model, std::vector<int> states) {
  Assignment out;
  for (std::size_t s = 0; s < model.nodes.size(); ++s) {
    const Node& node = model.nodes[s];
    if (!node.is_factor) {
      out.cost += node.cost[std::size_t(states[s])];
      continue;
    }
    double least = kInfinity;
    for (std::size_t k = 0; k < node.cost.size(); ++k) {
      double cost = node.cost[k];
      for (const int e : node.edges) {
        const Edge& edge = model.edges[std::size_t(e)];
        cost += edge.at(states[std::size_t(edge.variable)], edge.column[k]);
        if (cost >= least) break;
      }
      if (cost >= least) continue;
      least = cost;
      states[s] = int(k);
    }
    out.cost += least;
  }
  out.states = std::move(states);
  return out;
}

Assignment minimize(const PairwiseModel& model, const std::vector<int>& start) {
  Assignment best = with_best_factors(model, start);
  const auto take = [&](Assignment found) {
    if (!(found.cost < best.cost * (1 - kSame))) return false;
    found.bound = best.bound;
    best = std::move(found);
    return true;
  };
  Elimination elimination(model);
  if (elimination.is_exact()) {
    take(with_best_factors(model, elimination.round(best.states)));
    best.bound = best.cost;
    return best;
  }
  MessagePassing messages(model);
  constexpr int kSweeps = 12, kPatience = 5;
  for (int k = 0, in_vain = 0; k < kSweeps && in_vain < kPatience; ++k) {
    ++in_vain;
    for (const bool forward : {true, false}) {
      if (take(with_best_factors(model, messages.sweep(forward)))) in_vain = 0;
      best.bound = std::max(best.bound, messages.bound());
      // None is better.
      if (best.bound >= best.cost * (1 - kSame)) return best;
    }
  }
  take(with_best_factors(model, best_of_likely(model, messages.marginals(), best.states)));
  constexpr int kRounds = 6, kRoundsInVain = 2;
  for (int k = 0, in_vain = 0; k < kRounds && in_vain < kRoundsInVain; ++k) {
    in_vain = take(with_best_factors(model, elimination.round(best.states))) ? 0 : in_vain + 1;
  }
  return best;
}

}  // namespace tessera::spmd::auto_sharding
