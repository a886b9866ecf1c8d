// SPDX-License-Identifier: Apache-2.0
// The older HLO form: whatever is computed from SPMDFullToShardShape up to SPMDShardToFullShape is
// per device. Each connected piece becomes a manual computation.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/analysis/equivalence.h"
#include "src/ir/cloner.h"
#include "src/ir/constraint.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/manual/manual.h"

namespace tessera::spmd::manual {
namespace {

using ir::Instruction;
using ir::Opcode;

bool enters(const Instruction& i) { return ir::calls_target(i, ir::kFullToShardShapeTarget); }
bool leaves(const Instruction& i) { return ir::calls_target(i, ir::kShardToFullShapeTarget); }

[[noreturn]] void refuse(const Instruction& i, const std::string& why) {
  throw NotImplementedError("per-device code around " + i.name + ": " + why, i.location());
}

/// A sharding of a custom call, the dims open that it leaves unspecified.
TensorSharding stated_sharding(const Instruction& i) {
  if (!i.has_sharding() || !i.shape.is_array()) {
    refuse(i, "it has no sharding of its own");
  }
  TensorSharding s = i.sharding.front();
  if (s.kind != TensorSharding::Kind::axes) refuse(i, "its sharding names no axes");
  const auto* constraint = i.attrs.get_if<ir::ShardingConstraintAttrs>();
  for (std::int64_t d : constraint ? constraint->unspecified_dims : ir::unspecified_dims(i)) {
    if (d < s.rank()) s.dims[std::size_t(d)].open = true;
  }
  return s;
}

class Regions {
 public:
  explicit Regions(ir::Computation* c) : c_(c), n_(c->instructions().size()) {}

  void run() {
    mark();
    std::map<std::size_t, std::vector<Instruction*>> pieces;  // members by representative
    for (std::size_t k = 0; k < n_; ++k) {
      if (local_[k] || leaves(*at(k))) pieces[find(k)].push_back(at(k));
    }
    for (const auto& [representative, members] : pieces) build(members);
    // Only now: what a piece reads of another one has its sharding from that one's markers.
    for (const auto& [marker, result] : results_) marker->replace_all_uses_with(result);
    c_->sort_topologically();
    c_->remove_dead();
  }

 private:
  Instruction* at(std::size_t k) const { return c_->instructions()[k].get(); }
  static std::size_t index(const Instruction* i) { return std::size_t(i->index); }

  std::size_t find(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void unite(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

  void mark() {
    local_.assign(n_, 0);
    global_.assign(n_, 0);
    parent_.resize(n_);
    std::iota(parent_.begin(), parent_.end(), std::size_t(0));
    for (std::size_t k = 0; k < n_; ++k) {
      const Instruction& i = *at(k);
      if (enters(i)) {
        local_[k] = 1;
      } else if (i.is(Opcode::parameter) || leaves(i)) {
        global_[k] = 1;
      } else {
        for (const Instruction* o : i.operands()) {
          local_[k] |= local_[index(o)];
          global_[k] |= global_[index(o)];
        }
      }
      if (local_[k] && !enters(i)) global_[k] = 0;
    }
    // What results are made of without any operand, or of scalars, is per device as well.
    for (std::size_t k = n_; k-- > 0;) {
      const Instruction& i = *at(k);
      if (!leaves(i) && !(local_[k] && !enters(i))) continue;
      for (const Instruction* o : i.operands()) {
        const std::size_t from = index(o);
        if (global_[from] && is_scalar(*o)) continue;
        if (global_[from] && (o->is(Opcode::parameter) || leaves(*o) || !ir::is_pure(*o))) {
          refuse(i, "it takes " + o->name + ", which is a global array; valid: what " +
                        ir::kFullToShardShapeTarget + " gives, and scalars");
        }
        if (!local_[from] && o->is(Opcode::constant)) continue;
        local_[from] = 1;
      }
    }
    for (std::size_t k = 0; k < n_; ++k) {
      const Instruction& i = *at(k);
      if (!leaves(i) && (!local_[k] || enters(i))) continue;
      for (const Instruction* o : i.operands()) {
        if (local_[index(o)]) unite(k, index(o));
      }
    }
  }

  /// Each device has the same number, whatever the code around is.
  static bool is_scalar(const Instruction& i) { return i.shape.is_array() && i.shape.dims.empty(); }

  /// Scalars from outside that a piece takes.
  std::vector<Instruction*> scalars_of(const std::vector<Instruction*>& members) const {
    std::vector<Instruction*> out;
    for (const Instruction* m : members) {
      if (enters(*m)) continue;
      for (Instruction* o : m->operands()) {
        if (!local_[index(o)] && !o->is(Opcode::constant) && !contains(out, o)) out.push_back(o);
      }
    }
    return out;
  }

  /// A piece that feeds itself by way of global arrays can't be one call.
  void check_order(const std::vector<Instruction*>& members) const {
    std::vector<char> after(n_, 0);
    for (const Instruction* m : members) after[index(m)] = leaves(*m);
    for (std::size_t k = 0; k < n_; ++k) {
      for (const Instruction* o : at(k)->operands()) after[k] |= after[index(o)];
    }
    for (const Instruction* m : members) {
      if (enters(*m) && after[index(m)]) {
        refuse(*m, "it needs a result of the same per-device code");
      }
    }
    for (const Instruction* o : scalars_of(members)) {
      if (after[index(o)]) refuse(*o, "it needs a result of the per-device code that takes it");
    }
  }

  void build(const std::vector<Instruction*>& members) {
    check_order(members);
    std::vector<Instruction*> inputs, outputs;
    const Instruction* marker = nullptr;  // says which axes are manual
    for (Instruction* m : members) {
      if (enters(*m)) inputs.push_back(m);
      if (leaves(*m)) outputs.push_back(m);
      if (enters(*m) || (!marker && is_manual(*m))) marker = m;
      if (m == c_->root() && !leaves(*m)) refuse(*m, "it is returned without SPMDShardToFullShape");
    }
    if (outputs.empty()) return;  // nothing that anybody sees
    ir::Computation* body = c_->module()->add_computation("manual_computation_body");
    ir::Builder b(body);
    ir::CloneOptions options;
    options.control_predecessors = false;
    ir::Cloner cloner(*c_, body, options);
    std::vector<TensorSharding> in, out;
    std::vector<Instruction*> operands;
    for (Instruction* i : inputs) {
      cloner.map(i, b.parameter(std::int64_t(operands.size()), i->shape));
      Instruction* x = i->operands()[0];
      if (x->has_sharding() && ir::is_constraint(*x)) {
        in.push_back(stated_sharding(*x));
        operands.push_back(x->operands()[0]);
      } else if (x->has_sharding() && x->shape.is_array()) {
        in.push_back(x->sharding.front());
        operands.push_back(x);
      } else {
        in.push_back(TensorSharding::replicated_on(nullptr, x->shape.rank()));
        operands.push_back(x);
      }
    }
    for (Instruction* x : scalars_of(members)) {
      cloner.map(x, b.parameter(std::int64_t(operands.size()), x->shape));
      in.push_back(TensorSharding::replicated_on(nullptr, 0));
      operands.push_back(x);
    }
    for (Instruction* m : members) {
      if (!enters(*m) && !leaves(*m)) cloner.clone_with_operands(*m);
    }
    std::vector<Instruction*> results;
    std::vector<Shape> shapes;
    for (Instruction* o : outputs) {
      Instruction* x = o->operands()[0];
      results.push_back(cloner.clone_with_operands(*x));
      shapes.push_back(o->shape);
      out.push_back(stated_sharding(*o));
      o->drop_side_effect();
    }
    body->set_root(b.tuple(results));

    auto made = std::make_unique<Instruction>();
    made->opcode = Opcode::manual_computation;
    made->shape = Shape::tuple(shapes);
    made->name = "manual_computation";
    made->set_operands(operands);
    made->set_called({body});
    made->metadata = outputs.front()->metadata;
    made->attrs = attributes(marker, std::move(in), std::move(out));
    Instruction* call = c_->add(std::move(made));
    ir::Builder outside(c_);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      outside.metadata = outputs[k]->metadata;
      results_.emplace_back(outputs[k], outside.get_tuple_element(call, std::int64_t(k)));
    }
    for (Instruction* i : inputs) i->drop_side_effect();
  }

  static bool is_manual(const Instruction& i) {
    return !leaves(i) && !i.sharding.empty() && i.sharding.front().is_manual();
  }

  /// `{manual}` is all axes; otherwise those of the subgroup.
  static ir::ManualComputationAttrs attributes(const Instruction* marker,
                                               std::vector<TensorSharding> in,
                                               std::vector<TensorSharding> out) {
    ir::ManualComputationAttrs attrs;
    bool all = true;
    if (marker && marker->has_sharding()) {
      attrs.mesh = marker->sharding.front().mesh;
      attrs.manual_axes = marker->sharding.front().manual;
      all = attrs.manual_axes.empty();
    }
    for (auto* list : {&in, &out}) {
      for (TensorSharding& s : *list) {
        if (!attrs.mesh) attrs.mesh = s.mesh;
        // Groups are of the value outside.
        s.shard_group = -1;
        s.shard_like = false;
      }
    }
    for (std::size_t a = 0; all && attrs.mesh && a < attrs.mesh->axes.size(); ++a) {
      attrs.manual_axes.push_back(int(a));
    }
    std::sort(attrs.manual_axes.begin(), attrs.manual_axes.end());
    attrs.in_shardings = std::move(in);
    attrs.out_shardings = std::move(out);
    return attrs;
  }

  ir::Computation* c_;
  const std::size_t n_;
  std::vector<char> local_, global_;
  std::vector<std::size_t> parent_;
  std::vector<std::pair<Instruction*, Instruction*>> results_;  ///< a marker, what it gives now
};

}  // namespace

void raise_shard_shapes(ir::Module* module) {
  std::vector<ir::Computation*> found;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (enters(*i) || leaves(*i)) {
        found.push_back(c.get());
        break;
      }
    }
  }
  for (ir::Computation* c : found) Regions(c).run();
  if (!found.empty()) module->remove_dead_computations();
}

}  // namespace tessera::spmd::manual
