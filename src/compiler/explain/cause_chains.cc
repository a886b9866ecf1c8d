// SPDX-License-Identifier: Apache-2.0
// Names the arrays of a report and follows provenance from an axis back to an annotation.
#include "src/compiler/explain/cause_chains.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/constraint.h"
#include "src/spmd/communication_report.h"

namespace tessera::compiler::explain {
namespace {

using spmd::propagation::Cause;
using spmd::propagation::Op;

bool same_steps(const std::vector<ExplainStep>& a, const std::vector<ExplainStep>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k].tensor != b[k].tensor || a[k].op != b[k].op || a[k].how != b[k].how) return false;
  }
  return true;
}

}  // namespace

CauseChains::CauseChains(
    const spmd::propagation::Provenance& provenance, const ir::Module& module, Names names,
    const std::unordered_map<const ir::Instruction*, const ir::Instruction*>& final_of)
    : provenance_(provenance), module_(module), names_(std::move(names)), final_of_(final_of) {
  const spmd::propagation::Graph& graph = provenance_.graph;
  tensors_.resize(graph.values.size());
  // The entry's instructions first: they are what the user knows best.
  for (auto c = graph.computations.rbegin(); c != graph.computations.rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      for (std::size_t k = 0; k < graph.leaf_count(i.get()); ++k) {
        Tensor& t = tensors_[std::size_t(graph.value_of(i.get(), k))];
        if (!t.instruction) t = {i.get(), k};
      }
    }
  }
  const ir::Instruction* root = module_.entry()->root();
  if (root->is(ir::Opcode::tuple)) {
    std::size_t leaf = 0;
    for (const ir::Instruction* o : root->operands()) {
      if (!o->is(ir::Opcode::parameter)) results_.try_emplace(o, leaf);
      leaf += flatten(o->shape).size();
    }
  }
  results_.try_emplace(root, 0);
  for (std::size_t o = 0; o < graph.ops.size(); ++o) ops_.try_emplace(graph.ops[o].instruction, o);
}

int CauseChains::value_of(const Tensor& t) const {
  const spmd::propagation::Graph& graph = provenance_.graph;
  if (!t.instruction || !graph.base.count(t.instruction->parent)) return -1;
  if (t.leaf >= graph.leaf_count(t.instruction)) return -1;
  return graph.value_of(t.instruction, t.leaf);
}

std::string CauseChains::label(const ir::Instruction& i, std::size_t leaf) const {
  const ir::Computation* entry = module_.entry();
  if (i.parent == entry && i.is(ir::Opcode::parameter)) {
    const auto number = std::size_t(i.get<ir::ParameterAttrs>().number);
    if (number < names_.parameters.size() && !names_.parameters[number].empty()) {
      return names_.parameters[number];
    }
    const std::string& name = i.metadata->op_name.empty() ? i.name : i.metadata->op_name;
    std::string text = "argument " + std::to_string(number);
    if (i.shape.is_tuple) text += "[" + std::to_string(leaf) + "]";
    return name.empty() ? text : text + " (" + name + ")";
  }
  if (i.parent == entry && &i == entry->root() && i.is(ir::Opcode::tuple)) {
    if (leaf < names_.results.size() && !names_.results[leaf].empty()) return names_.results[leaf];
    return "result " + std::to_string(leaf);
  }
  if (ir::is_constraint(i)) {
    using Kind = ir::ShardingConstraintAttrs::Kind;
    const Kind kind = i.get<ir::ShardingConstraintAttrs>().kind;
    return kind == Kind::result    ? "result sharding"
           : kind == Kind::reshard ? "reshard"
                                   : "with_sharding_constraint";
  }
  if (const auto* custom = i.attrs.get_if<ir::CustomPartitioningAttrs>();
      custom && custom->partitioner) {
    return "custom_partitioning " + custom->partitioner->name();
  }
  return spmd::op_label(i);
}

bool CauseChains::at_boundary(const Annotation& a) const {
  if (results_.count(a.by)) return true;
  return a.by->parent == module_.entry() && a.by->is(ir::Opcode::parameter);
}

std::string CauseChains::label(const Annotation& a) const {
  const auto result = results_.find(a.by);
  if (result == results_.end() || a.by->is(ir::Opcode::parameter)) return label(*a.by, a.leaf);
  const std::size_t leaf = result->second + a.leaf;
  if (leaf < names_.results.size() && !names_.results[leaf].empty()) return names_.results[leaf];
  return "result " + std::to_string(leaf);
}

std::string CauseChains::name(const Tensor& t) const {
  if (!t.instruction) return "";
  const bool argument =
      t.instruction->parent == module_.entry() && t.instruction->is(ir::Opcode::parameter);
  if (argument) return label(*t.instruction, t.leaf);
  if (!t.instruction->shape.is_tuple) return t.instruction->name;
  return t.instruction->name + "[" + std::to_string(t.leaf) + "]";
}

std::string CauseChains::spec(const Tensor& t) const {
  if (!t.instruction) return "replicated";
  const auto at = final_of_.find(t.instruction);
  const auto& all = (at == final_of_.end() ? t.instruction : at->second)->sharding;
  if (all.empty()) return "replicated";
  return all[t.leaf < all.size() ? t.leaf : 0].to_spec_string();
}

std::optional<Annotation> CauseChains::statement(int value) const {
  const spmd::propagation::Value& v = provenance_.graph.values[std::size_t(value)];
  const int by = v.given ? value : v.adopted;
  if (by < 0) return std::nullopt;
  const spmd::propagation::Value& source = provenance_.graph.values[std::size_t(by)];
  if (!source.given_by) return std::nullopt;
  Annotation a{source.given_by, 0};
  for (std::size_t k = 0; k < provenance_.graph.leaf_count(a.by); ++k) {
    if (provenance_.graph.value_of(a.by, k) == by) a.leaf = k;
  }
  return a;
}

ExplainStep CauseChains::stated(int value) const {
  ExplainStep s;
  s.tensor = name(tensor_of(value));
  s.spec = provenance_.stated[std::size_t(value)].to_spec_string();
  s.how = "stated";
  if (const auto a = statement(value)) {
    s.op = label(*a);
    s.location = location_text(a->by->location());
  }
  return s;
}

std::string CauseChains::place(const Op& op, int value, int dim) const {
  const auto at = std::find(op.operands.begin(), op.operands.end(), value);
  const std::string where = "dim " + std::to_string(dim) + " of ";
  if (at != op.operands.end()) {
    return where + "operand " + std::to_string(at - op.operands.begin());
  }
  const auto result = std::find(op.results.begin(), op.results.end(), value);
  if (op.results.size() < 2) return where + "the result";
  return where + "result " + std::to_string(result - op.results.begin());
}

ExplainStep CauseChains::step(int value, const Cause* c) const {
  if (c && (c->kind == Cause::Kind::stated || c->kind == Cause::Kind::adopted)) {
    return stated(value);
  }
  ExplainStep s;
  s.tensor = name(tensor_of(value));
  s.spec = spec(tensor_of(value));
  if (!c) {
    s.how = "chosen by cost";
  } else if (c->kind == Cause::Kind::callback) {
    const ir::Instruction& i = *provenance_.graph.callbacks[std::size_t(c->op)].instruction;
    s.op = label(i);
    s.location = location_text(i.location());
    s.how = "its callback";
  } else {
    const Op& op = provenance_.graph.ops[std::size_t(c->op)];
    s.op = label(*op.instruction);
    s.location = location_text(op.instruction->location());
    s.how =
        c->from < 0 ? "together with its other tensors" : "from " + place(op, c->from, c->from_dim);
  }
  return s;
}

std::vector<ExplainStep> CauseChains::steps(int value, int dim, int axis, Annotation* end) const {
  std::vector<ExplainStep> out;
  // A cause is older than what it causes, so this ends; callbacks may break that, hence the limit.
  for (std::size_t turn = 0; turn < 100000; ++turn) {
    const Cause* c = provenance_.find(value, dim, axis);
    out.push_back(step(value, c));
    const bool says = c && (c->kind == Cause::Kind::stated || c->kind == Cause::Kind::adopted);
    if (says && end) {
      if (const auto a = statement(value)) *end = *a;
    }
    if (!c || c->kind != Cause::Kind::rule || c->from < 0) return out;
    value = c->from;
    dim = c->from_dim;
  }
  return out;
}

const Op* CauseChains::op_of(const ir::Instruction* instruction) const {
  auto it = ops_.find(instruction);
  return it == ops_.end() ? nullptr : &provenance_.graph.ops[std::size_t(it->second)];
}

std::string CauseChains::axis_names(const LogicalMesh& mesh, IndexList axes) {
  // The writer of specs knows how pieces join to whole axes.
  TensorSharding s = TensorSharding::replicated_on(std::make_shared<LogicalMesh>(mesh), 1);
  s.dims[0].axes = std::move(axes);
  std::string text = s.to_spec_string();
  if (text.rfind("P(", 0) != 0) return "";
  text = text.substr(2, text.size() - 3);
  if (text.front() == '(') text = text.substr(1, text.size() - 2);
  return text;
}

void append_chain(std::vector<ExplainChain>* chains, ExplainChain chain, const LogicalMesh& mesh,
                  IndexList axes, std::vector<IndexList>* axes_of_chains) {
  if (!chains->empty() && chains->back().dim == chain.dim &&
      same_steps(chains->back().steps, chain.steps)) {
    IndexList& joined = axes_of_chains->back();
    for (int a : axes) {
      if (!contains(joined, a)) joined.push_back(a);
    }
    chains->back().axes = CauseChains::axis_names(mesh, joined);
    return;
  }
  chain.axes = CauseChains::axis_names(mesh, axes);
  chains->push_back(std::move(chain));
  axes_of_chains->push_back(std::move(axes));
}

}  // namespace tessera::compiler::explain
