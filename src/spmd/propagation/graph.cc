// SPDX-License-Identifier: Apache-2.0
// Builds the propagation graph: values that share a sharding, ops with rules, data-flow edges.
#include "src/spmd/propagation/graph.h"
#include "src/ir/analysis/device_computations.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "src/base/check.h"
#include "src/ir/auto_sharding.h"
#include "src/ir/constraint.h"
#include "src/spmd/manual/manual.h"

namespace tessera::spmd::propagation {
namespace {

using ir::Instruction;
using ir::Opcode;

class Builder {
 public:
  Builder(ir::Module* module, MeshRef mesh) : module_(module), mesh_(std::move(mesh)) {}

  Graph run() {
    graph_.computations = ir::device_computations(*module_);
    number_leaves();
    join();
    make_values();
    connect();
    adopt_constraints();
    index();
    return std::move(graph_);
  }

 private:
  void number_leaves() {
    std::int64_t instructions = 0, leaves = 0;
    for (ir::Computation* c : graph_.computations) {
      graph_.base[c] = instructions;
      for (const auto& i : c->instructions()) {
        graph_.leaf_starts.push_back(leaves);
        if (says_something(*i)) notable_.push_back(i.get());
        if (!i->shape.is_tuple) {
          leaf_shapes_.push_back(i->shape);
          ++leaves;
          continue;
        }
        for (Shape& leaf : flatten(i->shape)) {
          leaf_shapes_.push_back(std::move(leaf));
          ++leaves;
        }
      }
      // One more, so that the last instruction's leaves end somewhere.
      graph_.leaf_starts.push_back(leaves);
      instructions += std::int64_t(c->instructions().size()) + 1;
    }
    parent_.resize(std::size_t(leaves));
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  /// Most instructions compute and have no sharding yet; these are looked at again.
  static bool says_something(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::while_:
      case Opcode::conditional:
      case Opcode::call:
      case Opcode::get_tuple_element:
      case Opcode::opt_barrier:
      case Opcode::custom_call:
      case Opcode::sharding_constraint:
      case Opcode::propagation_barrier:
      case Opcode::custom_partitioning:
      case Opcode::manual_computation:
        return true;
      default:
        return i.has_sharding();
    }
  }

  int find(std::int64_t leaf) {
    int x = int(leaf);
    while (parent_[std::size_t(x)] != x) {
      parent_[std::size_t(x)] = parent_[std::size_t(parent_[std::size_t(x)])];
      x = parent_[std::size_t(x)];
    }
    return x;
  }

  void unite(std::int64_t a, std::int64_t b) {
    int x = find(a), y = find(b);
    if (x != y) parent_[std::size_t(std::max(x, y))] = std::min(x, y);
  }

  void unite(const Instruction* a, const Instruction* b) {
    std::int64_t x = graph_.first_leaf(a), y = graph_.first_leaf(b);
    auto n = std::int64_t(graph_.leaf_count(a));
    TESSERA_CHECK(n == std::int64_t(graph_.leaf_count(b)),
                  a->describe() + " and " + b->describe() + " have different shapes");
    for (std::int64_t k = 0; k < n; ++k) unite(x + k, y + k);
  }

  /// First leaf of a get-tuple-element within its operand.
  std::int64_t element_leaf(const Instruction& i) const {
    const Instruction* tuple = i.operand(0);
    std::int64_t leaf = graph_.first_leaf(tuple);
    std::int64_t element = i.get<ir::GetTupleElementAttrs>().index;
    for (std::int64_t e = 0; e < element; ++e) {
      leaf += std::int64_t(flatten(tuple->shape.elements[std::size_t(e)]).size());
    }
    return leaf;
  }

  /// Values that are one by the meaning of the program.
  void join() {
    std::map<int, const Instruction*> group_members;
    std::set<int> partial_groups;
    for (const Instruction* i : notable_) {
      for (const TensorSharding& s : i->sharding) {
        if (s.shard_group >= 0 && !s.unreduced.empty()) partial_groups.insert(s.shard_group);
      }
    }
    // Callers give and take parts only where the program says so.
    const auto stays_whole = [&](const Instruction* i, const TensorSharding& s) {
      const ir::Computation* entry = module_->entry();
      const bool boundary = i == entry->root() || (i->is(Opcode::parameter) && i->parent == entry);
      return boundary && s.unreduced.empty() && partial_groups.count(s.shard_group) > 0;
    };
    for (const Instruction* i : notable_) {
      switch (i->opcode) {
        case Opcode::while_:
          unite(i, i->called()[1]->parameter(0));
          unite(i, i->called()[1]->root());
          unite(i, i->called()[0]->parameter(0));
          break;
        case Opcode::conditional:
          for (ir::Computation* branch : i->called()) unite(i, branch->root());
          break;
        case Opcode::call:
          unite(i, i->called()[0]->root());
          break;
        case Opcode::get_tuple_element:
          if (i->has_sharding()) break;
          for (std::size_t k = 0; k < graph_.leaf_count(i); ++k) {
            unite(graph_.first_leaf(i) + std::int64_t(k), element_leaf(*i) + std::int64_t(k));
          }
          break;
        case Opcode::opt_barrier:
          if (!i->has_sharding()) unite(i, i->operand(0));
          break;
        default:
          break;
      }
      for (const TensorSharding& s : i->sharding) {
        if (s.shard_group < 0 || !i->shape.is_array() || stays_whole(i, s)) continue;
        auto [it, fresh] = group_members.try_emplace(s.shard_group, i);
        if (!fresh && it->second->shape.rank() == i->shape.rank()) unite(it->second, i);
      }
    }
  }

  void make_values() {
    graph_.value_of_leaf.assign(parent_.size(), -1);
    graph_.values.reserve(parent_.size());
    graph_.ops.reserve(parent_.size());
    for (std::size_t leaf = 0; leaf < parent_.size(); ++leaf) {
      auto root = std::size_t(find(std::int64_t(leaf)));
      if (graph_.value_of_leaf[root] < 0) {
        graph_.value_of_leaf[root] = int(graph_.values.size());
        Value v;
        v.dims = leaf_shapes_[root].dims;
        v.active = leaf_shapes_[root].is_array() && !v.dims.empty();
        v.sharding = TensorSharding::open_on(mesh_, std::int64_t(v.dims.size()));
        graph_.values.push_back(std::move(v));
      }
      graph_.value_of_leaf[leaf] = graph_.value_of_leaf[root];
    }
    for (const Instruction* i : notable_) {
      for (std::size_t k = 0; k < i->sharding.size(); ++k) give(*i, k);
    }
    auto bound = [&](const Instruction* i) {
      for (std::size_t k = 0; k < graph_.leaf_count(i); ++k) {
        graph_.values[std::size_t(graph_.value_of(i, k))].boundary = true;
      }
    };
    const Instruction* root = module_->entry()->root();
    for (std::size_t k = 0; k < graph_.leaf_count(root); ++k) {
      Value& v = graph_.values[std::size_t(graph_.value_of(root, k))];
      const bool automatic = ir::has_auto_result(*root, k) && v.sharding.fully_open();
      v.open_boundary = v.active && (!v.given || automatic);
    }
    bound(root);
    for (const Instruction* p : module_->entry()->parameters()) {
      bound(p);
      for (std::size_t k = 0; k < graph_.leaf_count(p); ++k) {
        Value& v = graph_.values[std::size_t(graph_.value_of(p, k))];
        v.open_boundary = v.active && ir::has_auto_sharding(*p) && v.sharding.fully_open();
        v.given = v.given && !v.open_boundary;
      }
    }
    set_manual(bound);
  }

  /// Takes over what the program says. Of two statements on one value the first holds, unless that
  /// leaves all open.
  void give(const Instruction& i, std::size_t leaf) {
    const TensorSharding& s = i.sharding[leaf];
    if (leaf >= graph_.leaf_count(&i)) return;
    Value& v = graph_.values[std::size_t(graph_.value_of(&i, leaf))];
    if (s.kind == TensorSharding::Kind::unknown) return;
    if (s.kind == TensorSharding::Kind::maximal || (s.mesh && s.mesh != mesh_)) {
      // On one device, or on a mesh of its own: the partitioner moves it there and back.
      if (v.given) return;
      v.sharding = s;
      v.active = false;
      v.given = true;
      v.given_by = &i;
      return;
    }
    if (v.given && !v.sharding.fully_open()) return;
    TESSERA_CHECK(s.dims.size() == v.dims.size(), i.describe() + ": sharding " + s.to_string() +
                                                      " on a value of rank " +
                                                      std::to_string(v.dims.size()));
    v.sharding = s;
    v.sharding.mesh = mesh_;
    v.given = true;
    v.given_by = &i;
  }

  /// Within a manual computation no dim takes the manual axes, and its boundary is cut evenly.
  template <class F>
  void set_manual(F bound) {
    std::unordered_map<const ir::Computation*, IndexList> manual;
    // Callers stand behind what they call.
    for (auto i = notable_.rbegin(); i != notable_.rend(); ++i) {
      const bool enters = ir::is_partly_manual(**i);
      const std::vector<ir::Computation*> callees = ir::device_callees(**i);
      if (callees.empty()) continue;
      const IndexList inner = enters ? manual::axes_of(**i, mesh_) : manual[(*i)->parent];
      for (ir::Computation* callee : callees) manual[callee] = inner;
      if (enters) {
        for (const Instruction* p : (*i)->called()[0]->parameters()) bound(p);
        bound((*i)->called()[0]->root());
      }
    }
    for (const ir::Computation* c : graph_.computations) {
      const IndexList& around = manual[c];
      if (around.empty()) continue;
      for (const auto& i : c->instructions()) {
        for (std::size_t k = 0; k < graph_.leaf_count(i.get()); ++k) {
          Value& v = graph_.values[std::size_t(graph_.value_of(i.get(), k))];
          if (v.sharding.kind != TensorSharding::Kind::axes) continue;
          for (int a : around) {
            if (v.sharding.uses_axis(a)) {
              throw ShardingError("within a manual computation " + i->name + " has the sharding " +
                                      v.sharding.to_string() + ", which names a manual axis",
                                  i->location());
            }
          }
          v.sharding.manual = around;
        }
      }
    }
  }

  // --- ops ---------------------------------------------------------------------------------------

  /// One factor per dim, shared by all tensors.
  const FactorRule* identity(std::size_t rank, std::size_t operands) {
    auto [it, fresh] = identities_.try_emplace({rank, operands}, nullptr);
    if (fresh) {
      FactorRule rule;
      TensorFactors tensor;
      for (std::size_t d = 0; d < rank; ++d) {
        rule.factors.push_back({});
        tensor.push_back({int(d)});
      }
      rule.operands.assign(operands, tensor);
      rule.results.assign(1, tensor);
      graph_.rules.push_back(std::move(rule));
      it->second = &graph_.rules.back();
    }
    return it->second;
  }

  void edge(const Instruction* by, std::int64_t from_leaf, std::int64_t to_leaf) {
    int from = graph_.value_of_leaf[std::size_t(from_leaf)];
    int to = graph_.value_of_leaf[std::size_t(to_leaf)];
    if (from == to) return;
    const Value &a = graph_.values[std::size_t(from)], &b = graph_.values[std::size_t(to)];
    if (!a.active || !b.active || a.dims != b.dims) return;
    Op op;
    op.rule = identity(a.dims.size(), 1);
    op.instruction = by;
    op.operands = {from};
    op.results = {to};
    op.family = Family::same_layout;
    op.elementwise = true;
    graph_.ops.push_back(std::move(op));
  }

  void edges(const Instruction* by, const Instruction* from, const Instruction* to) {
    for (std::size_t k = 0; k < graph_.leaf_count(from); ++k) {
      edge(by, graph_.first_leaf(from) + std::int64_t(k), graph_.first_leaf(to) + std::int64_t(k));
    }
  }

  void connect() {
    for (ir::Computation* c : graph_.computations) {
      for (const auto& i : c->instructions()) {
        for (const Instruction* o : i->operands()) {
          if (i->is(Opcode::get_tuple_element)) continue;
          for (std::size_t k = 0; k < graph_.leaf_count(o); ++k) {
            ++graph_.values[std::size_t(graph_.value_of(o, k))].uses;
          }
        }
        connect(*i);
      }
    }
    const Instruction* root = module_->entry()->root();
    for (std::size_t k = 0; k < graph_.leaf_count(root); ++k) {
      ++graph_.values[std::size_t(graph_.value_of(root, k))].uses;
    }
    for (Op& op : graph_.ops) {
      op.single_use = std::all_of(op.operands.begin(), op.operands.end(), [&](int v) {
        const Value& value = graph_.values[std::size_t(v)];
        return value.dims.empty() || value.uses <= 1;
      });
    }
    for (const ir::Alias& alias : module_->input_output_alias) tie(alias);
  }

  void connect(Instruction& i) {
    switch (i.opcode) {
      case Opcode::tuple: {
        std::int64_t to = graph_.first_leaf(&i);
        for (const Instruction* o : i.operands()) {
          for (std::size_t k = 0; k < graph_.leaf_count(o); ++k) {
            edge(&i, graph_.first_leaf(o) + std::int64_t(k), to++);
          }
        }
        return;
      }
      case Opcode::get_tuple_element:
        for (std::size_t k = 0; k < graph_.leaf_count(&i); ++k) {
          edge(&i, element_leaf(i) + std::int64_t(k), graph_.first_leaf(&i) + std::int64_t(k));
        }
        return;
      case Opcode::opt_barrier:
      case Opcode::add_dependency:
        return edges(&i, i.operand(0), &i);
      case Opcode::while_:
        return edges(&i, i.operand(0), &i);
      case Opcode::call:
        for (std::size_t p = 0; p < i.operands().size(); ++p) {
          edges(&i, i.operand(p), i.called()[0]->parameter(p));
        }
        return;
      case Opcode::conditional:
        for (std::size_t b = 0; b < i.called().size(); ++b) {
          edges(&i, i.operand(b + 1), i.called()[b]->parameter(0));
        }
        return;
      case Opcode::manual_computation:
        if (ir::is_partly_manual(i)) return connect_manual(i);
        break;
      case Opcode::custom_partitioning:
        if (const auto& partitioner = i.get<ir::CustomPartitioningAttrs>().partitioner) {
          if (partitioner->has_infer_callback() || partitioner->has_propagate_callback()) {
            CallbackOp op;
            op.instruction = &i;
            collect(i, &op.operands, &op.results);
            graph_.callbacks.push_back(std::move(op));
          }
        }
        break;
      default:
        break;
    }
    add_op(i);
  }

  /// Global and local arrays at the boundary of a manual computation: dims differ by the parts that
  /// the manual axes make, which stay where they are.
  void connect_manual(const Instruction& i) {
    auto tie = [&](int global, int local, bool into) {
      const Value &g = graph_.values[std::size_t(global)], &l = graph_.values[std::size_t(local)];
      if (!g.active || !l.active || g.dims.size() != l.dims.size()) return;
      FactorRule rule;
      TensorFactors of_global, of_local;
      for (std::size_t d = 0; d < g.dims.size(); ++d) {
        const std::int64_t parts = l.dims[d] > 0 ? g.dims[d] / l.dims[d] : 1;
        of_global.emplace_back();
        if (parts > 1) {
          of_global.back().push_back(int(rule.factors.size()));
          rule.factors.push_back({parts, FactorKind::pass_through, true});
        }
        of_global.back().push_back(int(rule.factors.size()));
        of_local.push_back({int(rule.factors.size())});
        rule.factors.push_back({l.dims[d]});
      }
      rule.operands = {into ? of_global : of_local};
      rule.results = {into ? of_local : of_global};
      graph_.rules.push_back(std::move(rule));
      Op op;
      op.rule = &graph_.rules.back();
      op.instruction = &i;
      op.operands = {into ? global : local};
      op.results = {into ? local : global};
      op.family = Family::same_layout;
      graph_.ops.push_back(std::move(op));
    };
    const ir::Computation& body = *i.called()[0];
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      tie(graph_.value_of(i.operand(k)), graph_.value_of(body.parameter(k)), true);
    }
    for (std::size_t k = 0; k < graph_.leaf_count(&i); ++k) {
      tie(graph_.value_of(&i, k), graph_.value_of(body.root(), k), false);
    }
  }

  void collect(const Instruction& i, IndexList* operands, IndexList* results) const {
    for (const Instruction* o : i.operands()) {
      for (std::size_t k = 0; k < graph_.leaf_count(o); ++k) {
        operands->push_back(graph_.value_of(o, k));
      }
    }
    for (std::size_t k = 0; k < graph_.leaf_count(&i); ++k) {
      results->push_back(graph_.value_of(&i, k));
    }
  }

  void add_op(const Instruction& i) {
    Op op;
    op.instruction = &i;
    collect(i, &op.operands, &op.results);
    if (op.results.empty()) return;
    auto active = [&](int v) { return graph_.values[std::size_t(v)].active; };
    if (std::none_of(op.operands.begin(), op.operands.end(), active)) {
      // What one array alone has goes nowhere: constants, iotas, scalars spread out.
      if (std::count_if(op.results.begin(), op.results.end(), active) <= 1) return;
    }
    bool plain = ir::is_elementwise(i.opcode) && i.shape.is_array() &&
                 std::all_of(i.operands().begin(), i.operands().end(), [&](const Instruction* o) {
                   return o->shape.is_array() && o->shape.dims == i.shape.dims;
                 });
    if (plain) {
      op.rule = identity(std::size_t(i.shape.rank()), i.operands().size());
    } else {
      auto rule = rule_for(i);
      if (!rule) return;
      TESSERA_CHECK(
          rule->operands.size() == op.operands.size() && rule->results.size() == op.results.size(),
          "the factor rule of " + i.describe() + " doesn't fit its operands");
      graph_.rules.push_back(std::move(*rule));
      op.rule = &graph_.rules.back();
    }
    op.elementwise = ir::is_elementwise(i.opcode);
    switch (i.opcode) {
      case Opcode::broadcast:
        op.family = Family::broadcast;
        break;
      case Opcode::dynamic_slice:
      case Opcode::dynamic_update_slice:
        op.family = Family::dynamic;
        break;
      case Opcode::reshape:
      case Opcode::transpose:
        op.family = Family::same_layout;
        break;
      case Opcode::propagation_barrier:
        op.forward = i.get<ir::PropagationBarrierAttrs>().forward;
        op.backward = i.get<ir::PropagationBarrierAttrs>().backward;
        [[fallthrough]];
      case Opcode::sharding_constraint:
      case Opcode::pvary:
      case Opcode::device_placement:
        if (ir::is_reshard(i)) op.forward = op.backward = false;
        op.family = Family::same_layout;
        op.elementwise = true;
        break;
      default:
        op.family = ir::is_elementwise(i.opcode) ? Family::same_layout : Family::other;
    }
    graph_.ops.push_back(std::move(op));
  }

  /// A result that reuses an argument's memory should be sharded like it.
  void tie(const ir::Alias& alias) {
    auto leaf_at = [&](const Instruction* i, const Dims& path) {
      std::int64_t leaf = graph_.first_leaf(i);
      const Shape* shape = &i->shape;
      for (std::int64_t step : path) {
        if (!shape->is_tuple || step < 0 || step >= std::int64_t(shape->elements.size()))
          return leaf;
        for (std::int64_t e = 0; e < step; ++e) {
          leaf += std::int64_t(flatten(shape->elements[std::size_t(e)]).size());
        }
        shape = &shape->elements[std::size_t(step)];
      }
      return leaf;
    };
    ir::Computation* entry = module_->entry();
    if (alias.parameter < 0 || alias.parameter >= std::int64_t(entry->parameters().size())) return;
    edge(entry->root(),
         leaf_at(entry->parameter(std::size_t(alias.parameter)), alias.parameter_index),
         leaf_at(entry->root(), alias.output));
  }

  /// A closed constraint is also where its input is best made, if nothing else is asked of that.
  void adopt_constraints() {
    auto closed = [](const Value& v) {
      return v.given && std::none_of(v.sharding.dims.begin(), v.sharding.dims.end(),
                                     [](const DimSharding& d) { return d.open; });
    };
    std::map<int, IndexList> constraints;  // input → constrained values
    for (const Instruction* i : notable_) {
      if (i->operands().size() != 1 || !ir::is_constraint(*i) || !i->shape.is_array()) continue;
      if (ir::is_reshard(*i)) continue;
      int from = graph_.value_of(i->operand(0)), to = graph_.value_of(i);
      if (from != to) constraints[from].push_back(to);
    }
    for (const auto& [from, list] : constraints) {
      Value& input = graph_.values[std::size_t(from)];
      const Value& first = graph_.values[std::size_t(list[0])];
      // Of a scalar it says at the most that it is to be made as parts.
      const bool partial = input.dims.empty() && !first.sharding.unreduced.empty();
      if (input.given || !((input.active && first.active) || partial) || !closed(first)) continue;
      if (input.dims != first.dims) continue;
      bool agree = std::all_of(list.begin(), list.end(), [&](int v) {
        return closed(graph_.values[std::size_t(v)]) &&
               graph_.values[std::size_t(v)].sharding == first.sharding;
      });
      if (agree && !(input.boundary && !first.sharding.splits_evenly(first.dims))) {
        input.sharding = first.sharding;
        input.adopted = list[0];
        // Callers give and take parts only where the program says so.
        if (input.boundary) input.sharding.unreduced.clear();
      }
    }
  }

  void index() {
    graph_.versions.assign(graph_.values.size(), 0);
    // Counted first, then filled; an op that touches a value twice is listed once.
    std::vector<int> last, at(graph_.values.size() + 1, 0);
    const auto for_each = [&](auto touch) {
      last.assign(graph_.values.size(), -1);
      for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
        for (const auto* list : {&graph_.ops[o].operands, &graph_.ops[o].results}) {
          for (int v : *list) {
            if (last[std::size_t(v)] != int(o)) touch(std::size_t(v), int(o));
            last[std::size_t(v)] = int(o);
          }
        }
      }
    };
    for_each([&](std::size_t v, int) { ++at[v + 1]; });
    std::partial_sum(at.begin(), at.end(), at.begin());
    graph_.op_starts = at;
    graph_.op_list.resize(std::size_t(at.back()));
    for_each([&](std::size_t v, int o) { graph_.op_list[std::size_t(at[v]++)] = o; });
  }

  ir::Module* module_;
  MeshRef mesh_;
  Graph graph_;
  std::vector<const Instruction*> notable_;  ///< computation by computation, in order
  std::vector<Shape> leaf_shapes_;
  std::vector<int> parent_;
  std::map<std::pair<std::size_t, std::size_t>, const FactorRule*> identities_;
};

}  // namespace

Graph build_graph(ir::Module* module, const MeshRef& mesh) { return Builder(module, mesh).run(); }

void free_roots(ir::Module* module) {
  for (ir::Computation* c : ir::device_computations(*module)) {
    Instruction* root = c->root();
    if (c == module->entry() || !root->has_sharding() || !root->shape.is_array()) continue;
    auto copy = std::make_unique<Instruction>();
    copy->opcode = Opcode::copy;
    copy->shape = root->shape;
    copy->set_operands({root});
    copy->metadata = root->metadata;
    c->set_root(c->add(std::move(copy)));
  }
}

}  // namespace tessera::spmd::propagation
