// SPDX-License-Identifier: Apache-2.0
// Looks at each array of a solved model: what its other states would cost.
#include "src/spmd/auto_sharding/decisions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "src/spmd/auto_sharding/sharding_model.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd {
namespace {

using auto_sharding::PairwiseModel;
using auto_sharding::ShardingModel;
using Array = ShardingDecision::Array;

class Decisions {
 public:
  Decisions(const Propagation& propagation, ShardingModel* choice)
      : graph_(propagation.graph()), mesh_(propagation.mesh()), choice_(*choice) {
    arrays_.resize(graph_.values.size());
    for (const ir::Computation* c : graph_.computations) {
      for (const auto& i : c->instructions()) {
        for (std::size_t k = 0; k < graph_.leaf_count(i.get()); ++k) {
          arrays_[std::size_t(graph_.value_of(i.get(), k))].push_back({c->name(), i->name, k});
        }
      }
    }
  }

  std::vector<ShardingDecision> run() {
    for (const std::vector<std::size_t>& block : auto_sharding::blocks(choice_.groups())) {
      model_ = &choice_.build(block);
      states_ = with_best_factors(*model_, std::vector<int>(model_->nodes.size(), 0)).states;
      for (std::size_t n = 0; n < model_->nodes.size(); ++n) {
        if (!model_->nodes[n].is_factor && model_->nodes[n].cost.size() > 1) look_at(n);
      }
    }
    std::vector<ShardingDecision> out;
    for (auto& [root, decision] : found_) out.push_back(std::move(decision));
    return out;
  }

 private:
  /// The best state of a factor where a variable has another state.
  std::pair<int, double> best_of(int factor, int variable, int state) const {
    const PairwiseModel::Node& node = model_->nodes[std::size_t(factor)];
    std::pair<int, double> best{0, std::numeric_limits<double>::infinity()};
    for (std::size_t k = 0; k < node.cost.size(); ++k) {
      double cost = node.cost[k];
      for (const int e : node.edges) {
        const PairwiseModel::Edge& edge = model_->edges[std::size_t(e)];
        const int at = edge.variable == variable ? state : states_[std::size_t(edge.variable)];
        cost += edge.at(at, edge.column[k]);
      }
      if (cost < best.second) best = {int(k), cost};
    }
    return best;
  }

  double cost_of(int variable, int state) const {
    const PairwiseModel::Node& node = model_->nodes[std::size_t(variable)];
    double cost = node.cost[std::size_t(state)];
    for (const int e : node.edges) {
      cost += best_of(model_->edges[std::size_t(e)].factor, variable, state).second;
    }
    return cost;
  }

  void look_at(std::size_t n) {
    const int variable = int(n);
    const ShardingModel::Node& node = choice_.nodes()[n];
    auto [it, fresh] = found_.try_emplace(node.root);
    ShardingDecision& d = it->second;
    d.seconds = cost_of(variable, 0);
    d.chosen = node.domain->shardings[0];
    int next = -1;
    double least = d.next ? d.next_seconds : std::numeric_limits<double>::infinity();
    for (int s = 1; s < int(node.domain->shardings.size()); ++s) {
      const double cost = cost_of(variable, s);
      if (cost >= least) continue;
      least = cost;
      next = s;
    }
    if (fresh) {
      for (const int v : choice_.members(node.root)) {
        const std::vector<Array>& all = arrays_[std::size_t(v)];
        d.arrays.insert(d.arrays.end(), all.begin(), all.end());
      }
    }
    if (next < 0 && !fresh) return;
    if (next >= 0) {
      d.next = node.domain->shardings[std::size_t(next)];
      d.next_seconds = least;
    }
    d.edges.clear();
    for (const int e : model_->nodes[n].edges) add_edges(variable, e, next, &d);
  }

  void add_edges(int variable, int e, int next, ShardingDecision* d) const {
    const PairwiseModel::Edge& edge = model_->edges[std::size_t(e)];
    const ShardingModel::Node& factor = choice_.nodes()[std::size_t(edge.factor)];
    const propagation::Op& op = graph_.ops[std::size_t(factor.op)];
    const int now = best_of(edge.factor, variable, 0).first;
    ShardingDecision::Edge out;
    out.op = {op.instruction->parent->name(), op.instruction->name, 0};
    out.seconds = edge.at(0, edge.column[std::size_t(now)]);
    if (next >= 0) {
      const int then = best_of(edge.factor, variable, next).first;
      out.next_seconds = edge.at(next, edge.column[std::size_t(then)]);
    }
    const std::vector<FactorUse> uses = factor_uses(*op.rule);
    // Several tensors of an op that are one variable share its price.
    for (const std::size_t t : choice_.tensors_of_edges()[std::size_t(e)]) {
      const bool is_result = t >= op.operands.size();
      const std::size_t k = is_result ? t - op.operands.size() : t;
      out.operand = is_result ? -1 : std::ptrdiff_t(k);
      out.needed = tensor_sharding(mesh_, *op.rule, uses,
                                   is_result ? op.rule->results[k] : op.rule->operands[k],
                                   is_result, (*factor.strategies)[std::size_t(now)]);
      d->edges.push_back(out);
      out.seconds = out.next_seconds = 0;
    }
  }

  const propagation::Graph& graph_;
  const MeshRef mesh_;
  ShardingModel& choice_;
  std::vector<std::vector<Array>> arrays_;  ///< by value
  const PairwiseModel* model_ = nullptr;
  std::vector<int> states_;
  std::map<int, ShardingDecision> found_;  ///< by the variable's first value
};

}  // namespace

std::vector<ShardingDecision> sharding_decisions(const Propagation& propagation,
                                                 auto_sharding::ShardingModel* choice) {
  if (choice->groups() == 0) return {};
  choice->set_price_of_memory(0);
  return Decisions(propagation, choice).run();
}

}  // namespace tessera::spmd
