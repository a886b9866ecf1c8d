// SPDX-License-Identifier: Apache-2.0
// Loops that end when no row of any device has work left, as vmap makes them of a loop per row: the
// predicate is the or of a truth value per row (or not the and of the opposite), and a row without
// work keeps all that it carries. Trips after a device's own rows are done change nothing there, so
// it needn't ask the others: without the all-reduce each device makes the trips of its own rows.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/ir/analysis/equivalence.h"
#include "src/ir/rewrite/while_view.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

/// Pairs that are compared at most, and instructions that are looked at; predicates are small.
constexpr std::size_t kMaxPairs = 1024, kMaxSteps = 1024;

/// Whether two instructions, of two computations with the same parameter, always have equal values.
class EquivalentValues {
 public:
  bool same(const Instruction* a, const Instruction* b) {
    // A pair that was met is equal as soon as those behind it are.
    std::set<std::pair<const Instruction*, const Instruction*>> met;
    std::vector<std::pair<const Instruction*, const Instruction*>> open{{a, b}};
    while (!open.empty()) {
      const auto [x, y] = open.back();
      open.pop_back();
      if (x == y || !met.insert({x, y}).second) continue;
      if (met.size() > kMaxPairs || !same_function(*x, *y)) return false;
      for (std::size_t o = 0; o < x->operands().size(); ++o) {
        open.emplace_back(x->operand(o), y->operand(o));
      }
    }
    return true;
  }

 private:
  /// Of equal operands both make the same.
  static bool same_function(const Instruction& x, const Instruction& y) {
    if (x.is(Opcode::constant) && x.get<ir::ConstantAttrs>().elided) return false;
    return (x.is(Opcode::parameter) || ir::is_pure(x)) && ir::same_operation(x, y) &&
           x.operands().size() == y.operands().size();
  }
};

/// All elements of the operand, and no others.
bool keeps_elements(const Instruction& i) {
  return ir::has_trait(i.opcode, ir::traits::permutes | ir::traits::repeats);
}

bool reduces_by(const Computation& c, Opcode op) {
  const Instruction& root = *c.root();
  return root.is(op) && root.shape.dtype == DType::pred && c.parameters().size() == 2 &&
         root.operand(0)->is(Opcode::parameter) && root.operand(1)->is(Opcode::parameter) &&
         root.operand(0) != root.operand(1);
}

bool is_truth(const Instruction& i, bool value) {
  return i.is(Opcode::constant) && i.shape.is_array() && i.shape.rank() == 0 &&
         i.shape.dtype == DType::pred && !i.get<ir::ConstantAttrs>().elided &&
         i.get<ir::ConstantAttrs>().value == Literal::scalar(DType::pred, value);
}

/// What a computation and all that it calls do together with others; more than `most` are not
/// looked for. `seen`: functions that many call are gone through once.
void collectives_of(const Computation& c, std::size_t most, std::set<const Computation*>* seen,
                    std::vector<Instruction*>* found) {
  if (!seen->insert(&c).second) return;
  for (const auto& i : c.instructions()) {
    if (found->size() > most) return;
    if (ir::is_collective(i->opcode) || i->has_side_effect()) {
      found->push_back(i.get());
    }
    for (const Computation* callee : i->called()) collectives_of(*callee, most, seen, found);
  }
}

class LoopExit {
 public:
  explicit LoopExit(Instruction* loop) : test_(loop->called()[0]), body_(loop->called()[1]) {}

  bool localize(const std::function<void(const ir::Instruction&)>& removed) {
    // any(go), or not all(done).
    Instruction* root = test_->root();
    done_is_true_ = root->is(Opcode::not_);
    const Opcode op = done_is_true_ ? Opcode::and_ : Opcode::or_;
    Instruction* predicate = done_is_true_ ? root->operand(0) : root;
    if (!predicate->is(Opcode::all_reduce) || predicate->operands().size() != 1 ||
        !predicate->control_predecessors().empty() || predicate->shape.rank() != 0 ||
        !reduces_by(*predicate->called()[0], op)) {
      return false;
    }
    std::vector<Instruction*> all;
    std::set<const Computation*> seen;
    collectives_of(*test_, 1, &seen, &all);
    collectives_of(*body_, 1, &seen, &all);
    if (all.size() != 1) return false;
    Instruction* own = predicate->operand(0);
    const Instruction* reduced = own;
    while (keeps_elements(*reduced) && !reduced->is(Opcode::broadcast)) {
      reduced = reduced->operand(0);
    }
    if (!reduced->is(Opcode::reduce) || reduced->operands().size() != 2 ||
        reduced->shape.rank() != 0 || !reduces_by(*reduced->called()[0], op) ||
        !is_truth(*reduced->operand(1), done_is_true_)) {
      return false;
    }
    rows_ = reduced->operand(0);
    if (!changes_only_rows()) return false;
    if (removed) removed(*predicate);
    predicate->replace_all_uses_with(own);
    test_->remove_dead();
    return true;
  }

 private:
  /// Where a row is done, the body gives what it was given.
  bool changes_only_rows() {
    const Instruction &in = *body_->parameter(0), &out = *body_->root();
    if (!in.shape.is_tuple) return keeps(out, &in, -1);
    if (!out.is(Opcode::tuple)) return false;
    for (std::size_t k = 0; k < out.operands().size(); ++k) {
      if (!keeps(*out.operand(k), &in, std::int64_t(k))) return false;
    }
    return true;
  }

  static bool is_carried(const Instruction& i, const Instruction* in, std::int64_t k) {
    if (k >= 0) return ir::WhileView::carry_of(i, true) == std::size_t(k);
    const Instruction* x = &i;
    while (x->is(Opcode::copy)) x = x->operand(0);
    return x == in;
  }

  bool keeps(const Instruction& out, const Instruction* in, std::int64_t k) {
    const Instruction* x = &out;
    while (x->is(Opcode::copy)) x = x->operand(0);
    if (is_carried(*x, in, k)) return true;
    // What says which rows are done: all of it has one value then, before and after.
    if (is_carried(*rows_, test_->parameter(0), k) && is_when_done(*x, done_is_true_)) return true;
    if (!x->is(Opcode::select)) return false;
    return (is_carried(*x->operand(2), in, k) && is_when_done(*x->operand(0), false)) ||
           (is_carried(*x->operand(1), in, k) && is_when_done(*x->operand(0), true));
  }

  /// All of it has that value if all rows are done.
  bool is_when_done(const Instruction& p, bool value) {
    const Instruction* x = &p;
    for (;;) {
      if (++steps_ > kMaxSteps) return false;
      if (value == done_is_true_ && sameness_.same(rows_, x)) return true;
      if (x->is(Opcode::not_)) return is_when_done(*x->operand(0), !value);
      if (x->is(Opcode::and_) || x->is(Opcode::or_)) {
        const bool first = is_when_done(*x->operand(0), value);
        // One is enough to make an and false, or an or true.
        if (first == (x->is(Opcode::or_) == value)) return first;
        return is_when_done(*x->operand(1), value);
      }
      if (!keeps_elements(*x)) return false;
      x = x->operand(0);
    }
  }

  Computation *test_, *body_;
  const Instruction* rows_ = nullptr;  ///< a truth value for each
  bool done_is_true_ = false;
  std::size_t steps_ = 0;
  EquivalentValues sameness_;
};

}  // namespace

std::size_t localize_loop_exits(ir::Module* module,
                                const std::function<void(const ir::Instruction&)>& removed) {
  std::map<std::int64_t, std::vector<Instruction*>> loops;  // by the number of their test
  std::unordered_map<const Computation*, std::int64_t> tests;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::while_)) continue;
      const auto number = std::int64_t(tests.size());
      loops[tests.emplace(i->called()[0], number).first->second].push_back(i.get());
    }
  }
  std::size_t count = 0;
  for (const auto& [number, exits] : loops) {
    // A test of several loops would change for all.
    if (exits.size() == 1 && LoopExit(exits.front()).localize(removed)) ++count;
  }
  return count;
}

}  // namespace tessera::spmd
