// SPDX-License-Identifier: Apache-2.0
// Loops that end when no row of any device has work left, as vmap makes them of a loop per row: the
// predicate is the or of a truth value per row, and a row whose value is false keeps all that it
// carries. Trips after a device's own rows are done change nothing there, so it needn't ask the
// others: without the all-reduce each device makes the trips that its own rows need.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/literal_util.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

/// Pairs that are compared at most; predicates are small.
constexpr std::size_t kMostPairs = 4096;

/// Whether two instructions, of two computations with the same parameter, always have equal values.
class Sameness {
 public:
  bool same(const Instruction* a, const Instruction* b) {
    // A pair that was met is equal as soon as those behind it are.
    std::set<std::pair<const Instruction*, const Instruction*>> met;
    std::vector<std::pair<const Instruction*, const Instruction*>> open{{a, b}};
    while (!open.empty()) {
      const auto [x, y] = open.back();
      open.pop_back();
      if (x == y || !met.insert({x, y}).second) continue;
      if (met.size() > kMostPairs || !alike(*x, *y)) return false;
      for (std::size_t o = 0; o < x->operands.size(); ++o) {
        open.emplace_back(x->operand(o), y->operand(o));
      }
      for (std::size_t c = 0; c < x->called.size(); ++c) {
        if (x->called[c]->parameters().size() != y->called[c]->parameters().size()) return false;
        open.emplace_back(x->called[c]->root(), y->called[c]->root());
      }
    }
    return true;
  }

 private:
  static bool alike(const Instruction& x, const Instruction& y) {
    if (x.opcode != y.opcode || !(x.shape == y.shape) || x.operands.size() != y.operands.size() ||
        x.called.size() != y.called.size() || !(x.attrs == y.attrs)) {
      return false;
    }
    switch (x.opcode) {
      case Opcode::rng:
      case Opcode::custom_call:
      case Opcode::while_:
      case Opcode::conditional:
        return false;
      case Opcode::constant:
        return !x.get<ir::ConstantAttrs>().elided;
      default:
        return !ir::has_side_effect(x.opcode) && !ir::is_collective(x.opcode);
    }
  }
};

bool keeps_elements(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::copy:
      return true;
    default:
      return false;
  }
}

bool is_or(const Computation& c) {
  const Instruction& root = *c.root();
  return root.is(Opcode::or_) && root.shape.dtype == DType::pred && c.parameters().size() == 2 &&
         root.operand(0)->is(Opcode::parameter) && root.operand(1)->is(Opcode::parameter) &&
         root.operand(0) != root.operand(1);
}

bool is_false(const Instruction& i) {
  return i.is(Opcode::constant) && i.shape.is_array() && i.shape.rank() == 0 &&
         i.shape.dtype == DType::pred && !i.get<ir::ConstantAttrs>().elided &&
         i.get<ir::ConstantAttrs>().value == Literal::scalar(DType::pred, false);
}

/// What a computation and all that it calls do together with others; more than `most` are not
/// looked for.
void collectives_of(const Computation& c, std::size_t most, std::vector<Instruction*>* found) {
  for (const auto& i : c.instructions()) {
    if (found->size() > most) return;
    const auto* call = i->attrs.get_if<ir::CustomCallAttrs>();
    if (ir::is_collective(i->opcode) || (call != nullptr && call->has_side_effect) ||
        (ir::has_side_effect(i->opcode) && !i->is(Opcode::parameter))) {
      found->push_back(i.get());
    }
    for (const Computation* callee : i->called) collectives_of(*callee, most, found);
  }
}

class Loop {
 public:
  explicit Loop(Instruction* loop) : test_(loop->called[0]), body_(loop->called[1]) {}

  bool stop_alone(const std::function<void(const ir::Instruction&)>& removed) {
    Instruction* asked = test_->root();
    if (!asked->is(Opcode::all_reduce) || asked->operands.size() != 1 ||
        !asked->control_predecessors.empty() || asked->shape.rank() != 0 ||
        !is_or(*asked->called[0])) {
      return false;
    }
    std::vector<Instruction*> all;
    collectives_of(*test_, 1, &all);
    collectives_of(*body_, 1, &all);
    if (all.size() != 1) return false;
    Instruction* own = asked->operand(0);
    const Instruction* any = own;
    while (keeps_elements(*any) && !any->is(Opcode::broadcast)) any = any->operand(0);
    if (!any->is(Opcode::reduce) || any->operands.size() != 2 || any->shape.rank() != 0 ||
        !is_or(*any->called[0]) || !is_false(*any->operand(1))) {
      return false;
    }
    rows_ = any->operand(0);
    if (!changes_only_rows()) return false;
    if (removed) removed(*asked);
    test_->set_root(own);
    test_->remove_dead();
    return true;
  }

 private:
  /// Where a row's value in the test is false, the body gives what it was given.
  bool changes_only_rows() {
    const Instruction &in = *body_->parameter(0), &out = *body_->root();
    if (!in.shape.is_tuple) return keeps(out, &in, -1);
    if (!out.is(Opcode::tuple)) return false;
    for (std::size_t k = 0; k < out.operands.size(); ++k) {
      if (!keeps(*out.operand(k), &in, std::int64_t(k))) return false;
    }
    return true;
  }

  static bool is_carried(const Instruction& i, const Instruction* in, std::int64_t k) {
    const Instruction* x = &i;
    while (x->is(Opcode::copy)) x = x->operand(0);
    if (k < 0) return x == in;
    return x->is(Opcode::get_tuple_element) && x->operand(0) == in &&
           x->get<ir::GetTupleElementAttrs>().index == k;
  }

  bool keeps(const Instruction& out, const Instruction* in, std::int64_t k) {
    const Instruction* x = &out;
    while (x->is(Opcode::copy)) x = x->operand(0);
    if (is_carried(*x, in, k)) return true;
    return x->is(Opcode::select) && is_carried(*x->operand(2), in, k) &&
           false_when_done(*x->operand(0));
  }

  /// All false if all rows' values are.
  bool false_when_done(const Instruction& p) {
    const Instruction* x = &p;
    for (;;) {
      if (sameness_.same(rows_, x)) return true;
      if (x->is(Opcode::and_)) {
        return false_when_done(*x->operand(0)) || false_when_done(*x->operand(1));
      }
      if (!keeps_elements(*x)) return false;
      x = x->operand(0);
    }
  }

  Computation *test_, *body_;
  const Instruction* rows_ = nullptr;
  Sameness sameness_;
};

}  // namespace

std::size_t stop_loops_alone(ir::Module* module,
                             const std::function<void(const ir::Instruction&)>& removed) {
  std::map<std::int64_t, std::vector<Instruction*>> loops;  // by the number of their test
  std::unordered_map<const Computation*, std::int64_t> tests;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::while_) || !i->called[0]->root()->is(Opcode::all_reduce)) continue;
      const auto number = std::int64_t(tests.size());
      loops[tests.emplace(i->called[0], number).first->second].push_back(i.get());
    }
  }
  std::size_t count = 0;
  for (const auto& [number, alike] : loops) {
    // A test of several loops would change for all.
    if (alike.size() == 1 && Loop(alike.front()).stop_alone(removed)) ++count;
  }
  return count;
}

}  // namespace tessera::spmd
