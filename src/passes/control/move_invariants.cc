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
#include "src/ir/analysis/loop_invariance.h"
#include "src/ir/analysis/repeated_loops.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/rewrite/loop_motion.h"

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
  return !ir::is_collective(i.opcode) && ir::may_stand_outside(i);
}

class Loop {
 public:
  explicit Loop(Instruction* loop) : view_(*loop), loop_(loop), motion_(loop) {}

  std::size_t run() {
    if (!view_.has_separate_carries() || !loop_->control_predecessors().empty()) return 0;
    const bool runs = view_.trips().value_or(0) > 0;
    motion_.find_invariants([&](const Instruction& i) { return may_move(i, runs); });
    if (!motion_.has_invariants()) return 0;
    for (const auto& i : view_.body().instructions()) {
      if (!motion_.is_invariant(i.get()) || i.get() == view_.body().root()) continue;
      if (motion_.is_read_in_trips(i.get())) consider(i.get());
    }
    if (motion_.moved() == 0) return 0;
    motion_.add_carries();
    motion_.tidy();
    return motion_.moved();
  }

 private:
  /// Moves it, or what of its operands is worth that.
  void consider(Instruction* i) {
    if (!considered_.insert(i).second || ir::WhileView::carry_of(*i)) return;
    const bool is_part = i->is(Opcode::get_tuple_element) && !i->operand(0)->is(Opcode::tuple);
    if (i->shape.is_array() && (is_part || !is_trivial(*i)) && is_worth_moving(*i)) {
      motion_.move(i);
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
      return !motion_.is_invariant(user) && !ir::is_elementwise(user->opcode);
    });
    if (size > (stored ? kMostGrowth : 1) * bytes) return work >= kPerGrownElement * elements;
    const double saved =
        work + (bytes - size) / kBytesPerOperation + (stored ? kPerStoredElement * elements : 0);
    return saved >= kPerElement * elements;
  }

  ir::WhileView view_;
  Instruction* loop_;
  ir::LoopMotion motion_;
  std::unordered_set<const Instruction*> considered_;  // looked up, never walked
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
