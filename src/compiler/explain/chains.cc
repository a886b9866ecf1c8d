// SPDX-License-Identifier: Apache-2.0
// Why an array had its sharding before it moved, why another is required, and what stood against
// leaving it there.
#include <algorithm>
#include <set>

#include "src/base/contains.h"
#include "src/compiler/explain/explain.h"
#include "src/spmd/communication_report.h"

namespace tessera::compiler::explain {
namespace {

using ir::Instruction;
using spmd::FactorKind;
using spmd::FactorRule;
using spmd::propagation::Op;

constexpr char kAxes = '\x01';

class Chains {
 public:
  Chains(const CauseChains& why, Found* found)
      : why_(why), found_(*found), entry_(found->entry), record_(*found->record) {}

  void run() {
    Tensor moved{record_.value, record_.leaf};
    find_op();
    if (!record_.value || !record_.from_sharding) {
      moves_of_its_own();
      return;
    }
    const std::vector<Shape> leaves = flatten(moved.instruction->shape);
    if (leaves[std::min(moved.leaf, leaves.size() - 1)].dims != record_.shape.dims) {
      // Something that the op makes on its way.
      moves_of_its_own();
      entry_.tensor = "an intermediate of " + why_.label(*moved.instruction);
      entry_.type = record_.shape.to_string();
      return;
    }
    entry_.tensor = why_.name(moved);
    entry_.type = record_.shape.to_string();
    const TensorSharding &from = *record_.from_sharding, &to = *record_.to_sharding;
    const int value = why_.value_of(moved);
    layout(moved, value, from, &entry_.from_because);
    if (operand_ >= 0) {
      wanted_by_op(moved, value, to);
    } else {
      layout(moved, value, to, &entry_.to_because);
      if (to.is_replicated()) say_statement(value, &entry_.to_because);
    }
    what_stands_against(value, from, to);
    if (operand_ >= 0) disagreements();
    const bool silent = entry_.to_because.empty() && entry_.conflicts.empty();
    if (silent && to.is_replicated())
      against("no rule brings it an axis: nothing asks for a split");
  }

 private:
  const LogicalMesh& mesh() const { return *why_.provenance().mesh; }
  const spmd::propagation::Graph& graph() const { return why_.provenance().graph; }
  const TensorSharding& sharding(int value) const {
    return graph().values[std::size_t(value)].sharding;
  }
  bool has(int value, int dim, int axis) const {
    const TensorSharding& s = sharding(value);
    return s.kind == TensorSharding::Kind::axes && dim < int(s.dims.size()) &&
           contains(s.dims[std::size_t(dim)].axes, axis);
  }

  /// The op that needs the array, and which operand (as its rule counts) the array is.
  void find_op() {
    op_ = why_.op_of(record_.op);
    if (!record_.value || record_.value == record_.op) return;
    const int value = why_.value_of({record_.value, record_.leaf});
    int number = 0;
    for (const Instruction* o : record_.op->operands()) {
      const auto leaves = int(flatten(o->shape).size());
      for (int k = 0; k < leaves; ++k, ++number) {
        const bool same =
            o == record_.value || (value >= 0 && why_.value_of({o, std::size_t(k)}) == value);
        if (same && operand_ < 0) operand_ = number;
      }
    }
  }

  void take_end(const Annotation& end) {
    if (!end.by) return;
    auto& list = found_.annotations;
    if (!contains(list, end)) list.push_back(end);
  }

  ExplainStep own_step(const Tensor& tensor, const TensorSharding& s, const Instruction& by,
                       std::string how) const {
    ExplainStep step;
    step.tensor = why_.name(tensor);
    step.spec = s.to_spec_string();
    step.op = why_.label(by);
    step.location = by.location().known() ? by.location().to_string() : "";
    step.how = std::move(how);
    return step;
  }

  void add(std::vector<ExplainChain>* to, int dim, std::vector<ExplainStep> steps, int axis) {
    ExplainChain chain;
    chain.dim = dim;
    chain.steps = std::move(steps);
    auto& axes = to == &entry_.from_because ? from_axes_ : to_axes_;
    append_chain(to, std::move(chain), mesh(), {axis}, &axes);
  }

  std::vector<ExplainStep> prefixed(ExplainStep first, int value, int dim, int axis) {
    std::vector<ExplainStep> steps{std::move(first)};
    Annotation end;
    for (ExplainStep& s : why_.steps(value, dim, axis, &end)) steps.push_back(std::move(s));
    take_end(end);
    return steps;
  }

  /// Chains of an array in the layout `s`, in which it may have been computed rather than declared.
  void layout(const Tensor& tensor, int value, const TensorSharding& s,
              std::vector<ExplainChain>* to) {
    if (!s.mesh || s.kind != TensorSharding::Kind::axes) return;
    const Op* made_by = why_.op_of(tensor.instruction);
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      for (int a : s.dims[d].axes) {
        for (int p : why_.provenance().pieces_of(s.mesh->axes[std::size_t(a)])) {
          if (value >= 0 && has(value, int(d), p)) {
            Annotation end;
            add(to, int(d), why_.steps(value, int(d), p, &end), p);
            take_end(end);
          } else {
            from_operands(tensor, s, made_by, int(d), p, to);
          }
        }
      }
    }
    for (int a : s.unreduced) {
      for (int p : why_.provenance().pieces_of(s.mesh->axes[std::size_t(a)])) {
        from_operands(tensor, s, made_by, -1, p, to);
      }
    }
  }

  /// An axis that an op gave its result as it was computed. Dim -1: the result is a partial sum.
  void from_operands(const Tensor& tensor, const TensorSharding& s, const Op* op, int dim, int axis,
                     std::vector<ExplainChain>* to) {
    if (dim < 0) {
      std::vector<ExplainStep> steps;
      std::set<const Instruction*> seen;
      if (partial_from(tensor, s.to_spec_string(), axis, &steps, &seen)) {
        std::reverse(steps.begin(), steps.end());
        add(to, dim, std::move(steps), axis);
        return;
      }
    }
    const Instruction& by = *tensor.instruction;
    for (std::size_t o = 0; dim >= 0 && op && o < op->operands.size(); ++o) {
      if (tensor.leaf >= op->rule->results.size()) break;
      const auto& operand = op->rule->operands[o];
      const auto& result = op->rule->results[tensor.leaf];
      for (std::size_t d = 0; d < operand.size(); ++d) {
        const bool related = std::any_of(operand[d].begin(), operand[d].end(), [&](int f) {
          return contains(result[std::size_t(dim)], f);
        });
        if (!related || !has(op->operands[o], int(d), axis)) continue;
        ExplainStep first = own_step(
            tensor, s, by, "from dim " + std::to_string(d) + " of operand " + std::to_string(o));
        add(to, dim, prefixed(std::move(first), op->operands[o], int(d), axis), axis);
        return;
      }
    }
    add(to, dim, {own_step(tensor, s, by, "chosen by cost")}, axis);
  }

  /// The sum that an axis cuts into parts: of this op, or of one before it that passed its parts
  /// on. Steps are appended last first.
  bool partial_from(const Tensor& tensor, const std::string& spec, int axis,
                    std::vector<ExplainStep>* steps, std::set<const Instruction*>* seen) {
    constexpr std::size_t kFar = 64;
    if (seen->size() >= kFar || !seen->insert(tensor.instruction).second) return false;
    const Instruction& by = *tensor.instruction;
    auto step = [&](std::string how) {
      ExplainStep own = own_step(tensor, {}, by, std::move(how));
      own.spec = spec.empty() ? why_.spec(tensor) : spec;
      return own;
    };
    const Op* op = why_.op_of(&by);
    for (std::size_t o = 0; op && o < op->operands.size(); ++o) {
      const auto& operand = op->rule->operands[o];
      for (std::size_t d = 0; d < operand.size(); ++d) {
        const bool summed = std::any_of(operand[d].begin(), operand[d].end(), [&](int f) {
          return op->rule->factors[std::size_t(f)].kind == FactorKind::reduction;
        });
        if (!summed || !has(op->operands[o], int(d), axis)) continue;
        ExplainStep first =
            step("sums over dim " + std::to_string(d) + " of operand " + std::to_string(o));
        *steps = prefixed(std::move(first), op->operands[o], int(d), axis);
        std::reverse(steps->begin(), steps->end());
        return true;
      }
    }
    for (std::size_t o = 0; o < by.operands().size(); ++o) {
      if (!by.operand(o)->shape.is_array() || by.operand(o)->is(ir::Opcode::parameter)) continue;
      if (!partial_from({by.operand(o), 0}, "", axis, steps, seen)) continue;
      steps->push_back(step("from operand " + std::to_string(o)));
      return true;
    }
    return false;
  }

  /// Why an op wants its operand as it does: for its result's sake, or for another operand's.
  void wanted_by_op(const Tensor& tensor, int value, const TensorSharding& to) {
    for (std::size_t d = 0; d < to.dims.size(); ++d) {
      for (int a : to.dims[d].axes) {
        for (int p : why_.provenance().pieces_of(to.mesh->axes[std::size_t(a)])) {
          if (follows(tensor, to, int(d), p)) continue;
          if (value >= 0 && has(value, int(d), p)) {
            Annotation end;
            add(&entry_.to_because, int(d), why_.steps(value, int(d), p, &end), p);
            take_end(end);
          } else {
            add(&entry_.to_because, int(d), {own_step(tensor, to, *record_.op, "chosen by cost")},
                p);
          }
        }
      }
    }
  }

  /// The tensors of the op, results first, with their factors.
  template <class F>
  void others(F f) const {
    for (std::size_t r = 0; r < op_->results.size(); ++r) f(op_->results[r], op_->rule->results[r]);
    for (std::size_t o = 0; o < op_->operands.size(); ++o) {
      if (int(o) != operand_) f(op_->operands[o], op_->rule->operands[o]);
    }
  }

  const spmd::TensorFactors* own_factors() const {
    if (!op_ || operand_ < 0 || std::size_t(operand_) >= op_->rule->operands.size()) return nullptr;
    return &op_->rule->operands[std::size_t(operand_)];
  }

  bool follows(const Tensor& tensor, const TensorSharding& to, int dim, int axis) {
    const spmd::TensorFactors* own = own_factors();
    if (!own || dim >= int(own->size())) return false;
    bool done = false;
    others([&](int value, const spmd::TensorFactors& factors) {
      for (std::size_t d = 0; d < factors.size() && !done; ++d) {
        const bool related = std::any_of(factors[d].begin(), factors[d].end(), [&](int f) {
          return contains((*own)[std::size_t(dim)], f);
        });
        if (!related || !has(value, int(d), axis)) continue;
        ExplainStep first =
            own_step(tensor, to, *record_.op, "to match " + why_.place(*op_, value, int(d)));
        add(&entry_.to_because, dim, prefixed(std::move(first), value, int(d), axis), axis);
        done = true;
      }
    });
    return done;
  }

  void say_statement(int value, std::vector<ExplainChain>* to) {
    if (value < 0) return;
    const auto a = why_.statement(value);
    if (!a) return;
    ExplainChain chain;
    chain.steps.push_back(why_.stated(value));
    to->push_back(std::move(chain));
    take_end(*a);
  }

  void against(std::string text) {
    auto& list = entry_.conflicts;
    if (!contains(list, text)) list.push_back(std::move(text));
  }

  /// For each axis that the array loses: why it can't keep it. Pieces of axes with one reason are
  /// reported together.
  void what_stands_against(int value, const TensorSharding& from, const TensorSharding& to) {
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
      std::vector<std::pair<std::string, IndexList>> reasons;
      for (int a : from.dims[d].axes) {
        if (to.uses_axis(a)) continue;
        const MeshAxis& axis = from.mesh->axes[std::size_t(a)];
        for (int p : why_.provenance().pieces_of(axis)) {
          std::string text = lost(value, int(d), p);
          if (text.empty()) continue;
          if (reasons.empty() || reasons.back().first != text) reasons.push_back({text, {}});
          reasons.back().second.push_back(p);
        }
      }
      for (auto& [text, axes] : reasons) {
        const std::string names = CauseChains::axis_names(mesh(), axes);
        for (std::size_t at = text.find(kAxes); at != std::string::npos; at = text.find(kAxes)) {
          text.replace(at, 1, names);
        }
        against(std::move(text));
      }
    }
  }

  /// Why an axis can't stay, in words where kAxes stands for it; empty: only its cost.
  std::string lost(int value, int dim, int axis) {
    const std::string name(1, kAxes);
    const spmd::TensorFactors* own = own_factors();
    if (!own || dim >= int(own->size())) {
      const auto a = value < 0 ? std::nullopt : why_.statement(value);
      if (!a) return "";
      take_end(*a);
      return why_.label(*a) + " states " + why_.stated(value).spec + ", without " + name +
             " on dim " + std::to_string(dim);
    }
    const std::string op = why_.label(*record_.op);
    for (int f : (*own)[std::size_t(dim)]) {
      const spmd::Factor& factor = op_->rule->factors[std::size_t(f)];
      if (factor.kind == FactorKind::need_replication || factor.blocked) {
        return op + " needs dim " + std::to_string(dim) + " of operand " +
               std::to_string(operand_) + " whole";
      }
    }
    std::string reason;
    others([&](int other, const spmd::TensorFactors& factors) {
      for (std::size_t d = 0; d < factors.size() && reason.empty(); ++d) {
        const bool related = std::any_of(factors[d].begin(), factors[d].end(), [&](int f) {
          return contains((*own)[std::size_t(dim)], f);
        });
        if (related || !has(other, int(d), axis)) continue;
        Annotation end;
        ExplainChain chain;
        chain.axes = name;
        chain.dim = int(d);
        chain.steps = why_.steps(other, int(d), axis, &end);
        take_end(end);
        reason = name + " splits " + why_.place(*op_, other, int(d)) +
                 ", another dimension of the " + op + ": " + chain.to_string();
      }
    });
    if (!reason.empty()) return reason;
    others([&](int other, const spmd::TensorFactors& factors) {
      for (std::size_t d = 0; d < factors.size() && reason.empty(); ++d) {
        const bool related = std::any_of(factors[d].begin(), factors[d].end(), [&](int f) {
          return contains((*own)[std::size_t(dim)], f);
        });
        if (!related || has(other, int(d), axis)) continue;
        const auto a = why_.statement(other);
        if (!a) continue;
        reason = why_.place(*op_, other, int(d)) + " is kept without " + name + ": " +
                 why_.label(*a) + " states " + why_.stated(other).spec;
        take_end(*a);
      }
    });
    return reason;
  }

  /// Where the tensors of the op are split differently along one dimension of it.
  void disagreements() {
    if (!op_) return;
    struct Side {
      std::string place, axes;
      int value, dim, axis;
    };
    for (std::size_t f = 0; f < op_->rule->factors.size(); ++f) {
      std::vector<Side> sides;
      auto look = [&](int value, const spmd::TensorFactors& factors) {
        for (std::size_t d = 0; d < factors.size(); ++d) {
          if (factors[d].size() != 1 || factors[d][0] != int(f)) continue;
          const TensorSharding& s = sharding(value);
          if (s.kind != TensorSharding::Kind::axes || d >= s.dims.size()) continue;
          const IndexList& axes = s.dims[d].axes;
          if (axes.empty()) continue;
          sides.push_back({why_.place(*op_, value, int(d)), CauseChains::axis_names(mesh(), axes),
                           value, int(d), axes.front()});
        }
      };
      for (std::size_t o = 0; o < op_->operands.size(); ++o) {
        look(op_->operands[o], op_->rule->operands[o]);
      }
      for (std::size_t r = 0; r < op_->results.size(); ++r) {
        look(op_->results[r], op_->rule->results[r]);
      }
      for (const Side& s : sides) {
        if (s.axes == sides[0].axes) continue;
        Annotation end;
        (void)why_.steps(s.value, s.dim, s.axis, &end);
        take_end(end);
        against(sides[0].place + " is split by " + sides[0].axes + " where " + s.place +
                " is split by " + s.axes);
        break;
      }
    }
  }

  /// Halos, totals, rows: what an op's own way of running in parts exchanges.
  void moves_of_its_own() {
    const Instruction& op = *record_.op;
    Tensor tensor{&op, 0};
    std::int64_t largest = 0;
    for (const Instruction* o : op.operands()) {
      if (!o->shape.is_array() || o->shape.element_count() <= largest) continue;
      largest = o->shape.element_count();
      tensor = {o, 0};
    }
    entry_.tensor = why_.name(tensor);
    entry_.type = flatten(tensor.instruction->shape).front().to_string();
    propagated(tensor, &entry_.from_because);
    if (tensor.instruction != &op) propagated({&op, 0}, &entry_.to_because);
    if (entry_.from_because.empty() && entry_.to_because.empty()) {
      ExplainStep step = own_step(tensor, sharding_of(tensor), op, "chosen by cost");
      step.spec = record_.from;
      ExplainChain chain;
      chain.steps.push_back(std::move(step));
      entry_.from_because.push_back(std::move(chain));
    }
  }

  TensorSharding sharding_of(const Tensor& tensor) const {
    const auto& all = tensor.instruction->sharding;
    return tensor.leaf < all.size() ? all[tensor.leaf] : TensorSharding();
  }

  /// Chains of an array as propagation left it.
  void propagated(const Tensor& tensor, std::vector<ExplainChain>* to) {
    const int value = why_.value_of(tensor);
    if (value < 0) return;
    const TensorSharding& s = sharding(value);
    if (s.kind != TensorSharding::Kind::axes) return;
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      for (int a : s.dims[d].axes) {
        Annotation end;
        add(to, int(d), why_.steps(value, int(d), a, &end), a);
        take_end(end);
      }
    }
  }

  const CauseChains& why_;
  Found& found_;
  ExplainEntry& entry_;
  const spmd::CommunicationRecord& record_;
  const Op* op_ = nullptr;
  int operand_ = -1;
  std::vector<IndexList> from_axes_, to_axes_;
};

}  // namespace

void explain_entry(const CauseChains& why, Found* found) { Chains(why, found).run(); }

}  // namespace tessera::compiler::explain
