// SPDX-License-Identifier: Apache-2.0
// Loop-invariant code motion. What a loop passes on unchanged is invariant, and so is what is
// computed from invariants alone. Of that, those are moved which are read by what isn't invariant,
// and are worth it; where one isn't, what it is computed from may be.
#include "src/passes/control/move_invariants.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "src/cost/work.h"
#include "src/ir/analysis/equivalence.h"
#include "src/ir/analysis/repeated_loops.h"
#include "src/ir/cloner.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;
using ir::Work;

// Work is counted in simple operations on one element.
/// Less than this per trip isn't worth a carried value.
constexpr double kLeastWork = 256;
/// What an element of a moved value has to save: it is read from memory in each trip.
constexpr double kPerElement = 2;
/// The same where the value is larger than what it is made of: it takes memory that other values
/// could have.
constexpr double kPerGrownElement = 32;
/// What is stored in the loop in any case may be as many times as large as what it is made of.
constexpr double kMostGrowth = 2;
/// An element that an op reads which isn't elementwise: it would be written and read in the loop.
constexpr double kPerStoredElement = 2;
/// An element that is gathered or scattered.
constexpr double kPerIndexedElement = 4;
/// Bytes that take as long as a simple operation.
constexpr double kBytesPerOperation = 8;

double weight(Work work) {
  switch (work) {
    case Work::moderate:
      return 3;
    case Work::division:
      return 4;
    case Work::function:
      return 10;
    default:
      return 1;
  }
}

/// The bytes of the arrays that it holds.
double size_of(const Shape& shape) {
  if (shape.is_array()) return double(shape.element_count()) * double(byte_size(shape.dtype));
  double bytes = 0;
  for (const Shape& element : shape.elements) bytes += size_of(element);
  return bytes;
}

/// Takes as long as a loop or a factorization may.
bool is_long(const Instruction& i) { return i.is(Opcode::while_) || i.is(Opcode::custom_call); }

/// Doesn't compute: moves and generates elements.
bool is_trivial(const Instruction& i) {
  return ir::info(i.opcode).work == Work::none && !is_long(i) && !i.is(Opcode::gather) &&
         !i.is(Opcode::scatter);
}

double work_of(const Instruction& i) {
  if (is_trivial(i)) return 0;
  if (is_long(i)) return kLeastWork + kPerGrownElement * cost::total_elements(i.shape);
  if (ir::info(i.opcode).work == Work::none) return kPerIndexedElement * cost::layout_work(i);
  return weight(ir::info(i.opcode).work) * cost::flops(i, 1);
}

/// Gives the same before the loop as in each trip, and comes to an end there. A user's function may
/// throw: it isn't called before a loop that might not run (`runs`).
bool may_move(const Instruction& i, bool runs) {
  if (i.is(Opcode::custom_call)) {
    if (!runs) return false;
    const auto* target = ir::find_custom_call(i.get<ir::CustomCallAttrs>().target);
    return target != nullptr && target->is_pure() && !i.has_side_effect() &&
           i.control_predecessors().empty();
  }
  if (i.is(Opcode::while_)) return ir::is_pure(i) && ir::WhileView(i).trips().has_value();
  return !ir::runs_program(i.opcode) && !ir::is_collective(i.opcode) && ir::is_pure(i);
}

class Loop {
 public:
  explicit Loop(Instruction* loop)
      : view_(*loop), loop_(loop), hoisted_(view_.body(), loop->parent) {}

  std::size_t run() {
    if (!view_.has_separate_carries() || !loop_->control_predecessors().empty()) return 0;
    find_invariants();
    if (invariant_.empty()) return 0;
    for (const auto& i : view_.body().instructions()) {
      if (!is_invariant(i.get())) continue;
      const ir::UserList users = i->users();
      const bool needed = i.get() != view_.body().root() &&
                          std::any_of(users.begin(), users.end(),
                                      [&](const Instruction* user) { return !is_invariant(user); });
      if (needed) consider(i.get());
    }
    if (moved_.empty()) return 0;
    finish();
    return moved_.size();
  }

 private:
  bool is_invariant(const Instruction* i) const { return invariant_.count(i) > 0; }

  void find_invariants() {
    const bool runs = view_.trips().value_or(0) > 0;
    for (const auto& i : view_.body().instructions()) {
      if (const auto k = ir::WhileView::carry_of(*i)) {
        if (view_.is_invariant(*k) && i->shape.is_array()) invariant_.insert(i.get());
        continue;
      }
      const bool same =
          may_move(*i, runs) && std::all_of(i->operands().begin(), i->operands().end(),
                                            [&](const Instruction* o) { return is_invariant(o); });
      if (same) invariant_.insert(i.get());
    }
  }

  /// Moves it, or what of its operands is worth that.
  void consider(Instruction* i) {
    if (!considered_.insert(i).second || ir::WhileView::carry_of(*i)) return;
    const bool is_part = i->is(Opcode::get_tuple_element) && !i->operand(0)->is(Opcode::tuple);
    if (i->shape.is_array() && (is_part || !is_trivial(*i)) && is_worth_moving(*i)) {
      moved_.push_back(i);
      return;
    }
    for (Instruction* o : i->operands()) consider(o);
  }

  bool is_worth_moving(const Instruction& root) const {
    double work = 0, bytes = 0;
    std::vector<const Instruction*> pending{&root};
    std::unordered_set<const Instruction*> seen{&root};
    while (!pending.empty()) {
      const Instruction* i = pending.back();
      pending.pop_back();
      if (ir::WhileView::carry_of(*i)) bytes += size_of(i->shape);
      work += work_of(*i);
      for (const Instruction* o : i->operands()) {
        if (seen.insert(o).second) pending.push_back(o);
      }
    }
    const auto elements = double(root.shape.element_count());
    const double size = size_of(root.shape);
    if (work < kLeastWork) return false;
    const ir::UserList users = root.users();
    const bool stored = std::any_of(users.begin(), users.end(), [&](const Instruction* user) {
      return !is_invariant(user) && !ir::is_elementwise(user->opcode);
    });
    if (size > (stored ? kMostGrowth : 1) * bytes) return work >= kPerGrownElement * elements;
    const double saved =
        work + (bytes - size) / kBytesPerOperation + (stored ? kPerStoredElement * elements : 0);
    return saved >= kPerElement * elements;
  }

  void finish() {
    for (const auto& i : view_.body().instructions()) {
      if (const auto k = ir::WhileView::carry_of(*i); k && is_invariant(i.get())) {
        hoisted_.map(i.get(), view_.init(*k));
      }
    }
    std::vector<Instruction*> values;
    for (Instruction* i : moved_) values.push_back(hoisted_.clone_with_operands(*i));
    const std::vector<Instruction*> reads = ir::add_carries(loop_, values);
    for (std::size_t n = 0; n < reads.size(); ++n) moved_[n]->replace_all_uses_with(reads[n]);
    for (ir::Computation* c : {&view_.body(), loop_->parent}) {
      c->sort_topologically();
      c->remove_dead();
    }
  }

  ir::WhileView view_;
  Instruction* loop_;
  ir::Cloner hoisted_;
  std::unordered_set<const Instruction*> invariant_, considered_;  // looked up, never walked
  std::vector<Instruction*> moved_;
};

}  // namespace

std::size_t move_invariants_out_of_loops(ir::Module* module) {
  const ir::RepeatedLoops loops(*module);
  std::size_t total = 0;
  // Callees first: what leaves an inner loop may leave the one around it.
  for (const auto& c : module->computations()) {
    for (Instruction* loop : loops.in(*c)) total += Loop(loop).run();
  }
  return total;
}

}  // namespace tessera::passes
