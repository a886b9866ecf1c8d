// SPDX-License-Identifier: Apache-2.0
// Message passing and descent on pairwise models.
#include "src/spmd/auto_sharding/pairwise_model.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace tessera::spmd::auto_sharding {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Edge = PairwiseModel::Edge;
using Node = PairwiseModel::Node;

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
  }

  /// Decodes an assignment on the way.
  const std::vector<int>& sweep(bool forward) {
    const int n = int(model_.nodes.size());
    bound_ = 0;
    for (int k = 0; k < n; ++k) visit(forward ? k : n - 1 - k, forward);
    return states_;
  }
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
      for (std::size_t x = 0; x < costs.size(); ++x) {
        const double here = costs[x] - to_variable[x];
        for (double& least : to_factor) least = std::min(least, here + *row++);
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
  double bound_ = 0;
  std::vector<double> costs_, decided_, least_;  ///< of one visit
};

/// Descent on the variables; factors always have their best states.
class Descent {
 public:
  Descent(const PairwiseModel& model, std::vector<int> states)
      : model_(model), states_(std::move(states)) {}

  std::vector<int> run() {
    constexpr int kRounds = 4;
    bool better = true;
    for (int round = 0; round < kRounds && better; ++round) {
      better = false;
      for (int s = 0; s < int(model_.nodes.size()); ++s) {
        better |= model_.nodes[std::size_t(s)].is_factor ? move_all_of(s) : move_one(s);
      }
    }
    return std::move(states_);
  }

 private:
  /// A factor's least cost, given its variables.
  double least_of(int factor) const {
    const Node& node = model_.nodes[std::size_t(factor)];
    double least = kInfinity;
    for (std::size_t k = 0; k < node.cost.size(); ++k) {
      double cost = node.cost[k];
      for (const int e : node.edges) {
        const Edge& edge = model_.edges[std::size_t(e)];
        cost += edge.at(states_[std::size_t(edge.variable)], edge.column[k]);
        if (cost >= least) break;
      }
      least = std::min(least, cost);
    }
    return least;
  }

  bool move_one(int variable) {
    const Node& node = model_.nodes[std::size_t(variable)];
    if (node.cost.size() < 2) return false;
    std::vector<double> costs = node.cost;
    std::vector<double> by_column;
    for (const int e : node.edges) {
      const Edge& edge = model_.edges[std::size_t(e)];
      const Node& factor = model_.nodes[std::size_t(edge.factor)];
      by_column.assign(std::size_t(edge.columns), kInfinity);
      for (std::size_t k = 0; k < factor.cost.size(); ++k) {
        double cost = factor.cost[k];
        for (const int other : factor.edges) {
          if (other == e) continue;
          const Edge& o = model_.edges[std::size_t(other)];
          cost += o.at(states_[std::size_t(o.variable)], o.column[k]);
        }
        double& least = by_column[std::size_t(edge.column[k])];
        least = std::min(least, cost);
      }
      for (std::size_t x = 0; x < costs.size(); ++x) {
        double least = kInfinity;
        for (int c = 0; c < edge.columns; ++c) {
          least = std::min(least, by_column[std::size_t(c)] + edge.at(int(x), c));
        }
        costs[x] += least;
      }
    }
    const int best = argmin(costs);
    int& now = states_[std::size_t(variable)];
    if (!lower(costs[std::size_t(best)], costs[std::size_t(now)])) return false;
    now = best;
    return true;
  }

  /// What the variables of a factor cost with all factors around them; where that is above `most`,
  /// some number above it.
  double around(const std::vector<int>& variables, const std::vector<int>& factors,
                double most = kInfinity) const {
    double cost = 0;
    for (const int v : variables) {
      cost += model_.nodes[std::size_t(v)].cost[std::size_t(states_[std::size_t(v)])];
    }
    for (const int f : factors) {
      if (cost > most) break;
      cost += least_of(f);
    }
    return cost;
  }

  /// All of a factor's variables as one of its states needs them.
  bool move_all_of(int factor) {
    const Node& node = model_.nodes[std::size_t(factor)];
    // Where nothing is paid but for work there is nothing to win.
    if (!lower(*std::min_element(node.cost.begin(), node.cost.end()), least_of(factor))) {
      return false;
    }
    constexpr std::size_t kMostAround = 40;
    std::vector<int> variables, factors;
    for (const int e : node.edges) {
      const int v = model_.edges[std::size_t(e)].variable;
      const Node& variable = model_.nodes[std::size_t(v)];
      if (variable.cost.size() < 2) continue;
      if (variable.edges.size() > kMostAround) return false;
      variables.push_back(v);
    }
    if (variables.size() < 2) return false;
    for (const int v : variables) {
      for (const int e : model_.nodes[std::size_t(v)].edges) {
        factors.push_back(model_.edges[std::size_t(e)].factor);
      }
    }
    std::sort(factors.begin(), factors.end());
    factors.erase(std::unique(factors.begin(), factors.end()), factors.end());
    if (factors.size() > kMostAround) return false;
    double least = around(variables, factors);
    bool better = false;
    // By edge and column: what the variable would best be.
    std::vector<std::vector<int>> wanted;
    for (const int e : node.edges) wanted.push_back(best_states(model_.edges[std::size_t(e)]));
    std::vector<int> before, after;
    std::set<std::vector<int>> tried;
    for (std::size_t k = 0; k < node.cost.size(); ++k) {
      before.clear();
      after.clear();
      for (std::size_t i = 0; i < node.edges.size(); ++i) {
        const Edge& edge = model_.edges[std::size_t(node.edges[i])];
        const int now = states_[std::size_t(edge.variable)], column = edge.column[k];
        const int best = wanted[i][std::size_t(column)];
        before.push_back(now);
        after.push_back(edge.at(best, column) < edge.at(now, column) ? best : now);
      }
      // Many states of the factor ask for the same.
      if (after == before || !tried.insert(after).second) continue;
      assign(node, after);
      const double cost = around(variables, factors, least);
      if (lower(cost, least)) {
        least = cost;
        better = true;
      } else {
        assign(node, before);
      }
    }
    return better;
  }

  static std::vector<int> best_states(const Edge& edge) {
    std::vector<int> best(std::size_t(edge.columns), 0);
    const int states = int(edge.cost.size()) / edge.columns;
    for (int x = 1; x < states; ++x) {
      for (int c = 0; c < edge.columns; ++c) {
        int& b = best[std::size_t(c)];
        if (edge.at(x, c) < edge.at(b, c)) b = x;
      }
    }
    return best;
  }

  void assign(const Node& factor, const std::vector<int>& states) {
    for (std::size_t i = 0; i < factor.edges.size(); ++i) {
      states_[std::size_t(model_.edges[std::size_t(factor.edges[i])].variable)] = states[i];
    }
  }

  static bool lower(double cost, double than) { return cost < than * (1 - 1e-9); }

  const PairwiseModel& model_;
  std::vector<int> states_;
};

}  // namespace

int PairwiseModel::add_node(std::vector<double> cost, bool is_factor) {
  nodes.push_back({std::move(cost), is_factor, {}});
  return int(nodes.size()) - 1;
}

void PairwiseModel::add_edge(Edge edge) {
  const auto share = [](auto* known, auto* list) {
    const std::string_view bytes(reinterpret_cast<const char*>(list->data()),
                                 list->size() * sizeof((*list)[0]));
    const std::size_t hash = std::hash<std::string_view>()(bytes);
    const auto [begin, end] = known->equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second == list->list_ || *it->second == *list->list_) {
        list->list_ = it->second;
        return;
      }
    }
    known->emplace(hash, list->list_);
  };
  share(&costs_, &edge.cost);
  share(&columns_, &edge.column);
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

Assignment minimize(const PairwiseModel& model, const std::vector<int>& start, int sweeps) {
  Assignment best = with_best_factors(model, start);
  MessagePassing messages(model);
  constexpr int kPatience = 10;
  for (int k = 0, in_vain = 0; k < sweeps && in_vain < kPatience; ++k) {
    ++in_vain;
    for (const bool forward : {true, false}) {
      Assignment found = with_best_factors(model, messages.sweep(forward));
      if (found.cost < best.cost) {
        best = std::move(found);
        in_vain = 0;
      }
      // None is better.
      if (messages.bound() >= best.cost * (1 - 1e-9)) return best;
    }
  }
  return with_best_factors(model, Descent(model, std::move(best.states)).run());
}

}  // namespace tessera::spmd::auto_sharding
