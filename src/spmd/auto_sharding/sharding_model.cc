// SPDX-License-Identifier: Apache-2.0
// Builds pairwise models of a propagated module.
#include "src/spmd/auto_sharding/sharding_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/base/contains.h"
#include "src/base/key_writer.h"
#include "src/cost/executions.h"
#include "src/cost/work.h"
#include "src/spmd/auto_sharding/halo_prices.h"
#include "src/spmd/auto_sharding/placement.h"
#include "src/spmd/auto_sharding/strategies.h"
#include "src/spmd/auto_sharding/variables.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/reshard/axis_groups.h"
#include "src/spmd/rules/axis_assignment.h"
#include "src/spmd/rules/factor_use.h"
#include "src/spmd/rules/projection.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::auto_sharding {
namespace {

using ir::Opcode;
using propagation::Op;
using propagation::Value;

}  // namespace

class ShardingModel::Builder : private ModelState {
 public:
  Builder(const ir::Module& module, const Propagation& propagation, const cost::Machine& machine,
          bool halos)
      : ModelState{propagation.graph(), propagation.mesh()},
        module_(module),
        propagation_(propagation),
        machine_(machine),
        knows_halos_(halos),
        placements_(propagation.mesh(), machine) {}

  void start() {
    if (!mesh) return;
    group_axes();
    if (groups.empty()) return;
    times_ = cost::executions(module_);
    variables_.emplace(static_cast<const ModelState&>(*this));
    find_element_bytes();
    start_.resize(graph.values.size());
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (takes_part(int(v))) start_[v] = propagation_.sharding_of(int(v));
    }
    current = start_;
    halos_.emplace(graph, mesh, machine_, knows_halos_);
    domains_.emplace(static_cast<const ModelState&>(*this), propagation_, &*halos_, &placements_);
  }

  bool has_halos() const { return halos_ && halos_->any(); }
  std::size_t group_count() const { return groups.size(); }

  void restart(double passes, double more) {
    current = start_;
    strategy_ = start_strategy_;
    seconds_per_held_byte_ = {machine_.pass(passes), machine_.pass(passes + more)};
  }
  /// The arrays stay as they are.
  void set_price_of_memory(double passes) { seconds_per_held_byte_.fill(machine_.pass(passes)); }

  const PairwiseModel& build(const std::vector<std::size_t>& block) {
    active.assign(groups.size(), 0);
    for (const std::size_t g : block) active[g] = 1;
    if (strategy_.empty()) {
      lay_out();
      start_strategies();
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].op < 0) set_variable(n);
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].op >= 0) set_factor(n);
    }
    return model_;
  }

  void take(const Assignment& assignment) {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const auto state = std::size_t(assignment.states[n]);
      const Node& node = nodes_[n];
      if (node.op >= 0) {
        strategy_[std::size_t(node.op)] = (*node.strategies)[state];
      } else {
        for (const int v : variables_->members(node.root)) {
          current[std::size_t(v)] = node.domain->shardings[state];
        }
      }
    }
  }

  void mark(const std::vector<char>& values, const std::vector<char>& ops) {
    is_marked_value_.resize(values.size());
    is_marked_op_.resize(ops.size());
    for (std::size_t v = 0; v < values.size(); ++v) is_marked_value_[v] |= values[v];
    for (std::size_t o = 0; o < ops.size(); ++o) is_marked_op_[o] |= ops[o];
  }

  std::vector<double> held_bytes(const Assignment& a) const {
    const auto state = [&](int node) { return std::size_t(a.states[std::size_t(node)]); };
    std::vector<double> bytes(nodes_.size(), 0);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].op < 0) bytes[n] = nodes_[n].domain->placements[state(int(n))].shard_bytes;
    }
    for (std::size_t e = 0; e < model_.edges.size(); ++e) {
      const PairwiseModel::Edge& edge = model_.edges[e];
      bytes[std::size_t(edge.factor)] +=
          (*edge_bytes_[e])[state(edge.variable) * std::size_t(edge.columns) +
                            std::size_t(edge.column[state(edge.factor)])];
    }
    return bytes;
  }

  double marked_bytes(const std::vector<double>& held) const {
    double bytes = 0;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (node.op >= 0 ? is_marked_op(node.op) : is_marked_variable(node.root)) bytes += held[n];
    }
    return bytes;
  }

  const TensorSharding& sharding_of(int value) const { return current[std::size_t(value)]; }
  std::span<const TensorSharding> choices_of(int value) const {
    const int node = node_of_value_.empty() ? -1 : node_of_value_[std::size_t(value)];
    if (node < 0) return {};
    return nodes_[std::size_t(node)].domain->shardings;
  }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& members(int root) const { return variables_->members(root); }
  const std::vector<std::vector<std::size_t>>& tensors_of_edges() const { return edge_tensors_; }

  std::vector<Propagation::Pin> pins() const {
    std::vector<Propagation::Pin> pins;
    for (std::size_t v = 0; v < current.size(); ++v) {
      if (node_of_value_.empty() || node_of_value_[v] < 0) continue;
      if (propagation_.is_free(int(v), current[v])) pins.push_back({int(v), current[v]});
    }
    return pins;
  }

 private:
  // --- axes ------------------------------------------------------------------------------------

  void group_axes() {
    IndexList axes;
    for (int a = 0; a < int(mesh->axes.size()); ++a) {
      if (mesh->axes[std::size_t(a)].size > 1) axes.push_back(a);
    }
    std::vector<IndexList> lists, sets;
    std::map<std::string, bool> seen;
    const auto add = [&](std::vector<IndexList>* to, const IndexList& list) {
      if (list.empty()) return;
      std::string key(to == &lists ? "l" : "s");
      for (const int a : list) key.push_back(char('0' + a));
      if (seen.emplace(std::move(key), true).second) to->push_back(list);
    };
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const TensorSharding& s = graph.values[v].sharding;
      if (s.kind != TensorSharding::Kind::axes || s.mesh != mesh) continue;
      for (const DimSharding& d : s.dims) add(&lists, d.axes);
      add(&sets, s.unreduced);
      add(&sets, s.manual);
    }
    groups = reshard::axis_groups(axes, lists, sets);
  }

  // --- variables -------------------------------------------------------------------------------

  void find_element_bytes() {
    element_bytes.assign(graph.values.size(), 1);
    for (const ir::Computation* c : graph.computations) {
      for (const auto& i : c->instructions()) {
        const std::vector<Shape> leaves =
            i->shape.is_tuple ? flatten(i->shape) : std::vector<Shape>{i->shape};
        for (std::size_t k = 0; k < leaves.size(); ++k) {
          if (!leaves[k].is_array()) continue;
          element_bytes[std::size_t(graph.value_of(i.get(), k))] =
              std::max<std::int64_t>(1, std::int64_t(byte_size(leaves[k].dtype)));
        }
      }
    }
  }

  bool is_marked_op(int op) const {
    return !is_marked_op_.empty() && is_marked_op_[std::size_t(op)] != 0;
  }
  bool is_marked_variable(int root) const {
    const std::vector<int>& all = variables_->members(root);
    return !is_marked_value_.empty() && std::any_of(all.begin(), all.end(), [&](int v) {
      return is_marked_value_[std::size_t(v)] != 0;
    });
  }

  int add_node(int op, int root) {
    Node node;
    node.op = op;
    node.root = root;
    nodes_.push_back(std::move(node));
    work_.push_back(0);
    return model_.add_node({}, /*is_factor=*/op >= 0);
  }

  /// All nodes and edges: only what they cost depends on where the arrays are.
  void lay_out() {
    node_of_value_.assign(graph.values.size(), -1);
    for (std::size_t o = 0; o < ops().size(); ++o) {
      const Op& op = ops()[o];
      for (const int root : variables_->first_met()[o]) {
        const int node = add_node(-1, root);
        for (const int v : variables_->members(root)) node_of_value_[std::size_t(v)] = node;
      }
      std::vector<Slot> slots = slots_of(op);
      if (slots.empty()) continue;
      const double work = times_[op.instruction->parent].times * work_of(op);
      if (Variables::joins(op) && slots.size() == 1) {
        // All in one variable: work is shared out as that is split.
        work_[std::size_t(slots[0].node)] += work;
        continue;
      }
      const int factor = add_node(int(o), -1);
      work_.back() = work;
      for (Slot& slot : slots) {
        PairwiseModel::Edge edge;
        edge.variable = slot.node;
        edge.factor = factor;
        model_.add_edge(std::move(edge));
        edge_tensors_.push_back(std::move(slot.tensors));
      }
    }
    edge_bytes_.resize(model_.edges.size());
  }

  void set_variable(std::size_t n) {
    Node& node = nodes_[n];
    node.domain = domains_->of(variables_->members(node.root));
    const double price = seconds_per_held_byte_[is_marked_variable(node.root) ? 1 : 0];
    std::vector<double>& costs = model_.nodes[n].cost;
    costs.clear();
    for (std::size_t s = 0; s < node.domain->placements.size(); ++s) {
      costs.push_back(price * node.domain->placements[s].shard_bytes +
                      work_[n] / node.domain->parts[s]);
    }
  }

  // --- ops -------------------------------------------------------------------------------------

  const std::vector<Op>& ops() const { return halos_->ops(); }

  /// The tensors of an op that are one variable.
  using Tensors = std::vector<std::size_t>;  ///< operands, then results
  struct Slot {
    int node = -1;
    Tensors tensors;
  };

  std::vector<Slot> slots_of(const Op& op) const {
    const std::size_t operands = op.operands.size(), tensors = operands + op.results.size();
    const auto value_at = [&](std::size_t t) {
      return t < operands ? op.operands[t] : op.results[t - operands];
    };
    std::vector<Slot> slots;
    for (std::size_t t = 0; t < tensors; ++t) {
      const int node = node_of_value_[std::size_t(value_at(t))];
      if (node < 0) continue;
      auto slot =
          std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.node == node; });
      if (slot == slots.end()) slot = slots.insert(slots.end(), {node, {}});
      slot->tensors.push_back(t);
    }
    return slots;
  }

  void set_factor(std::size_t n) {
    Node& node = nodes_[n];
    const Op& op = ops()[std::size_t(node.op)];
    PairwiseModel::Node& factor = model_.nodes[n];
    const std::span<const Tensors> slots(&edge_tensors_[std::size_t(factor.edges.front())],
                                         factor.edges.size());
    const std::shared_ptr<OpChoices> choices =
        choices_of(op, slots, strategy_[std::size_t(node.op)]);
    factor.cost.clear();
    const double times = times_[op.instruction->parent].times;
    for (std::size_t k = 0; k < choices->shares.size(); ++k) {
      const double rows = halos_->of(std::size_t(node.op), choices->strategies.list[k]);
      factor.cost.push_back(work_[n] * choices->shares[k] + times * rows);
    }
    for (std::size_t k = 0; k < slots.size(); ++k) {
      set_edge(op, factor.edges[k], &choices->slots[k], is_marked_op(node.op));
    }
    node.strategies = {choices, &choices->strategies.list};
  }

  /// By state of a variable and column: seconds of reshards, and bytes that are held for them.
  struct EdgeCosts {
    std::vector<double> seconds, bytes;
    struct Total {
      double price = -1;  ///< of bytes
      PairwiseModel::Shared<double> seconds{};
    };
    std::array<Total, 2> total{};  ///< of ops that aren't marked, and of those that are
  };
  /// What the ways to share out an op ask of one slot.
  struct SlotChoices {
    int columns = 0;
    PairwiseModel::Shared<int> column;           ///< by strategy
    std::vector<std::vector<Placement>> needed;  ///< by column and tensor of the slot
    /// What edges cost, by the variable's domain and how often the op runs.
    std::map<std::pair<int, double>, EdgeCosts> costs;
  };
  /// Of ops that are equal, shardings included.
  struct OpChoices {
    Strategies strategies;
    std::vector<double> shares;  ///< of the work, by strategy
    std::vector<SlotChoices> slots;
  };

  /// Programs repeat their layers: equal ops are looked at once.
  std::shared_ptr<OpChoices> choices_of(const Op& op, std::span<const Tensors> slots,
                                        const FactorAxes& now) {
    std::shared_ptr<OpChoices>& known = choices_[key_of(op, slots, now)];
    if (known) return known;
    known = std::make_shared<OpChoices>();
    known->strategies = enumerate(*this, op, now);
    for (const FactorAxes& axes : known->strategies.list) {
      known->shares.push_back(work_share(*mesh, known->strategies.uses, axes));
    }
    for (const Tensors& slot : slots) {
      known->slots.push_back(slot_choices(op, known->strategies, slot));
    }
    return known;
  }

  std::string key_of(const Op& op, std::span<const Tensors> slots, const FactorAxes& now) const {
    KeyWriter key;
    for (const Factor& f : op.rule->factors) key.add_all(f.size, f.kind, f.blocked, f.uneven);
    key.add_all(now, active);
    const auto add = [&](const IndexList& values, const std::vector<TensorFactors>& tensors) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        const auto v = std::size_t(values[k]);
        key.add(takes_part(values[k]));
        if (!takes_part(values[k])) continue;
        key.add_all(tensors[k], graph.values[v].dims, element_bytes[v]);
        const TensorSharding& s = current[v];
        for (const DimSharding& d : s.dims) key.add(d.axes);
        key.add_all(s.unreduced, s.manual);
      }
      key.add(values.size());
    };
    add(op.operands, op.rule->operands);
    add(op.results, op.rule->results);
    for (const Tensors& slot : slots) key.add(slot);
    return key.take();
  }

  Placement placed(const TensorSharding& s, int value) {
    const auto v = std::size_t(value);
    return placements_.of(s, graph.values[v].dims, element_bytes[v]);
  }

  SlotChoices slot_choices(const Op& op, const Strategies& strategies, const Tensors& slot) {
    const FactorRule& rule = *op.rule;
    const std::size_t operands = op.operands.size();
    std::vector<TensorUse> tensors;
    for (const std::size_t t : slot) {
      const bool is_result = t >= operands;
      tensors.push_back({is_result ? &rule.results[t - operands] : &rule.operands[t], is_result});
    }
    Columns columns = columns_of(rule, strategies, tensors);
    SlotChoices out;
    out.columns = int(columns.example.size());
    out.column = std::move(columns.of);
    for (const std::size_t k : columns.example) {
      out.needed.emplace_back();
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::size_t t = slot[i];
        const int v = t < operands ? op.operands[t] : op.results[t - operands];
        tensor_sharding(mesh, rule, strategies.uses, *tensors[i].factors, tensors[i].is_result,
                        strategies.list[k], &needed_);
        out.needed.back().push_back(placed(needed_, v));
      }
    }
    return out;
  }

  void set_edge(const Op& op, int number, SlotChoices* choices, bool marked) {
    PairwiseModel::Edge& edge = model_.edges[std::size_t(number)];
    edge.column = choices->column;
    edge.columns = choices->columns;
    const Domain& domain = *nodes_[std::size_t(edge.variable)].domain;
    const double times = times_[op.instruction->parent].times;
    auto [it, fresh] = choices->costs.try_emplace({domain.number, times});
    EdgeCosts& costs = it->second;
    if (fresh) {
      costs =
          edge_costs(op, edge_tensors_[std::size_t(number)], *choices, domain.placements, times);
    }
    EdgeCosts::Total& total = costs.total[marked ? 1 : 0];
    if (const double price = seconds_per_held_byte_[marked ? 1 : 0]; total.price != price) {
      total.price = price;
      std::vector<double> seconds = costs.seconds;
      for (std::size_t k = 0; k < seconds.size(); ++k) seconds[k] += price * costs.bytes[k];
      total.seconds = std::move(seconds);
    }
    edge.cost = total.seconds;
    edge_bytes_[std::size_t(number)] = &costs.bytes;
  }

  EdgeCosts edge_costs(const Op& op, const Tensors& slot, const SlotChoices& choices,
                       const std::vector<Placement>& states, double times) {
    const std::size_t columns = choices.needed.size();
    EdgeCosts out;
    out.seconds.assign(states.size() * columns, 0.0);
    out.bytes = out.seconds;
    for (std::size_t k = 0; k < slot.size(); ++k) {
      const bool is_result = slot[k] >= op.operands.size();
      for (std::size_t s = 0, at = 0; s < states.size(); ++s) {
        for (std::size_t c = 0; c < columns; ++c, ++at) {
          const Placement& need = choices.needed[c][k];
          if (!(need == states[s])) out.bytes[at] += need.shard_bytes;
          out.seconds[at] += times * (is_result ? placements_.price(need, states[s])
                                                : placements_.price(states[s], need));
        }
      }
    }
    return out;
  }

  double work_of(const Op& op) const {
    switch (op.instruction->opcode) {
      case Opcode::tuple:
      case Opcode::get_tuple_element:
      case Opcode::while_:
      case Opcode::call:
      case Opcode::conditional:
      case Opcode::opt_barrier:
      case Opcode::add_dependency:
      case Opcode::sharding_constraint:
      case Opcode::propagation_barrier:
      case Opcode::manual_computation:
        return 0;
      default:
        break;
    }
    return machine_.work(cost::layout_work(*op.instruction));
  }

  // --- strategies ------------------------------------------------------------------------------

  /// Of each op the cheapest strategy for the arrays as they are.
  void start_strategies() {
    const std::vector<char> kept = std::exchange(active, std::vector<char>(groups.size(), 1));
    std::map<std::tuple<std::string, double, int>, FactorAxes> known;
    for (const Op& op : ops()) {
      FactorAxes best(op.rule->factors.size());
      // With all groups active no choice depends on where they are; nor does one that isn't made.
      if (!variables_->is_one(op) && std::find(kept.begin(), kept.end(), 0) != kept.end()) {
        if (std::optional<FactorAxes> agreed = agreement(*this, op)) {
          best = std::move(*agreed);
        } else {
          const double work = work_of(op);
          const auto o = std::size_t(&op - ops().data());
          const int one_alone = halos_->moves_rows(o) ? int(o) : -1;
          const auto [it, fresh] = known.try_emplace({key_of(op, {}, best), work, one_alone});
          if (fresh) {
            Strategies strategies = enumerate(*this, op, best);
            const std::vector<double> costs = costs_now(op, strategies, work);
            const auto least = std::min_element(costs.begin(), costs.end()) - costs.begin();
            it->second = std::move(strategies.list[std::size_t(least)]);
          }
          best = it->second;
        }
      }
      strategy_.push_back(std::move(best));
    }
    active = kept;
    start_strategy_ = strategy_;
  }

  /// By strategy, for the arrays as they are.
  std::vector<double> costs_now(const Op& op, const Strategies& strategies, double work) {
    std::vector<double> costs;
    const auto o = std::size_t(&op - ops().data());
    for (const FactorAxes& axes : strategies.list) {
      costs.push_back(work * work_share(*mesh, strategies.uses, axes) + halos_->of(o, axes));
    }
    const auto add = [&](const IndexList& values, const std::vector<TensorFactors>& tensors,
                         bool results) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        const auto v = std::size_t(values[k]);
        if (!takes_part(values[k]) || tensors[k].size() != graph.values[v].dims.size()) continue;
        const Placement have = placed(current[v], values[k]);
        const Columns columns = columns_of(*op.rule, strategies, {{&tensors[k], results}});
        std::vector<double> prices;
        for (const std::size_t example : columns.example) {
          tensor_sharding(mesh, *op.rule, strategies.uses, tensors[k], results,
                          strategies.list[example], &needed_);
          const Placement need = placed(needed_, values[k]);
          prices.push_back(results ? placements_.price(need, have) : placements_.price(have, need));
        }
        for (std::size_t s = 0; s < costs.size(); ++s) {
          costs[s] += prices[std::size_t(columns.of[s])];
        }
      }
    };
    add(op.operands, op.rule->operands, false);
    add(op.results, op.rule->results, true);
    return costs;
  }

  const ir::Module& module_;
  const Propagation& propagation_;
  const cost::Machine machine_;
  const bool knows_halos_;
  Placements placements_;
  std::array<double, 2> seconds_per_held_byte_{};  ///< of what isn't marked, and of what is
  std::vector<char> is_marked_value_, is_marked_op_;
  std::unordered_map<const ir::Computation*, cost::Executions> times_;
  std::optional<Variables> variables_;
  std::optional<HaloPrices> halos_;
  std::optional<Domains> domains_;

  std::vector<TensorSharding> start_;  ///< by value
  std::vector<FactorAxes> strategy_;   ///< by op
  std::vector<FactorAxes> start_strategy_;
  TensorSharding needed_;  ///< of the tensor that is looked at
  PairwiseModel model_;
  std::vector<Node> nodes_;   ///< of the model
  std::vector<double> work_;  ///< by node: seconds of all its work, times how often it runs
  std::vector<std::vector<std::size_t>> edge_tensors_;
  std::vector<const std::vector<double>*> edge_bytes_;  ///< [state of the variable][column]
  std::unordered_map<std::string, std::shared_ptr<OpChoices>> choices_;
  std::vector<int> node_of_value_;  ///< -1: none
};

ShardingModel::ShardingModel(const ir::Module& module, const Propagation& propagation,
                             const cost::Machine& machine, bool halos)
    : builder_(std::make_unique<Builder>(module, propagation, machine, halos)) {
  builder_->start();
}
ShardingModel::~ShardingModel() = default;

void ShardingModel::restart(double passes, double more) { builder_->restart(passes, more); }
void ShardingModel::set_price_of_memory(double passes) { builder_->set_price_of_memory(passes); }
bool ShardingModel::has_halos() const { return builder_->has_halos(); }
std::size_t ShardingModel::groups() const { return builder_->group_count(); }
const PairwiseModel& ShardingModel::build(const std::vector<std::size_t>& groups) {
  return builder_->build(groups);
}
const std::vector<ShardingModel::Node>& ShardingModel::nodes() const { return builder_->nodes(); }
const std::vector<std::vector<std::size_t>>& ShardingModel::tensors_of_edges() const {
  return builder_->tensors_of_edges();
}
const std::vector<int>& ShardingModel::members(int root) const { return builder_->members(root); }
void ShardingModel::mark(const std::vector<char>& values, const std::vector<char>& ops) {
  builder_->mark(values, ops);
}
std::vector<double> ShardingModel::held_bytes(const Assignment& a) const {
  return builder_->held_bytes(a);
}
double ShardingModel::marked_bytes(const std::vector<double>& held) const {
  return builder_->marked_bytes(held);
}
void ShardingModel::take(const Assignment& assignment) { builder_->take(assignment); }
const TensorSharding& ShardingModel::sharding_of(int value) const {
  return builder_->sharding_of(value);
}
std::span<const TensorSharding> ShardingModel::choices_of(int value) const {
  return builder_->choices_of(value);
}
std::vector<Propagation::Pin> ShardingModel::pins() const { return builder_->pins(); }

}  // namespace tessera::spmd::auto_sharding
