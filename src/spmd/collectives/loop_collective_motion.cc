// SPDX-License-Identifier: Apache-2.0
// Collectives of what a loop does not change travel once before it; what it only adds up is reduced
// once after it.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "src/ir/analysis/loop_invariance.h"
#include "src/ir/analysis/repeated_loops.h"
#include "src/ir/rewrite/loop_motion.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

bool is_splat_of(const Instruction& i, const Literal& value) {
  const Instruction* c = &i;
  while (c->is(Opcode::broadcast) || c->is(Opcode::copy) || c->is(Opcode::reshape)) {
    c = c->operand(0);
  }
  return c->is(Opcode::constant) && c->shape.rank() == 0 && !c->get<ir::ConstantAttrs>().elided &&
         c->get<ir::ConstantAttrs>().value == value;
}

class Loop {
 public:
  explicit Loop(Instruction* loop)
      : view_(*loop),
        loop_(loop),
        outside_(loop->parent),
        in_(view_.body().parameter(0)),
        out_(view_.body().root()),
        before_(std::int64_t(view_.body().instructions().size())),
        motion_(loop, fresh_channels()) {
    for (std::size_t k = 0; k < view_.size(); ++k) inits_.push_back(view_.init(k));
  }

  /// Carried arrays are distinct.
  bool simple() const {
    const auto only_elements = [](const Instruction* tuple) {
      const ir::UserList users = tuple->users();
      return std::all_of(users.begin(), users.end(), [](const Instruction* user) {
        return user->is(Opcode::get_tuple_element);
      });
    };
    const Instruction* tested = view_.condition().parameter(0);
    return view_.has_tuples() && out_ != in_ && loop_->control_predecessors().empty() &&
           only_elements(in_) && only_elements(tested) && tested != view_.condition().root();
  }

  std::size_t run() {
    if (!simple()) return 0;
    outside_.metadata = loop_->metadata;
    const std::size_t n = hoist() + postpone();
    if (n > 0) finish();
    return n;
  }

 private:
  static ir::CloneOptions fresh_channels() {
    ir::CloneOptions options;
    options.fresh_channels = true;
    return options;
  }

  // ----- what does not change

  std::size_t hoist() {
    motion_.find_invariants(
        [](const Instruction& i) { return i.shape.is_array() && ir::may_stand_outside(i); });
    for (const auto& i : view_.body().instructions()) {
      if (!ir::is_collective(i->opcode) || !motion_.is_invariant(i.get())) continue;
      // One that only another one of them reads is brought along by that one.
      if (!motion_.is_read_in_trips(i.get()) && !leads_elsewhere(i.get())) continue;
      gone_.insert(i.get());
      motion_.move(i.get());
    }
    return motion_.moved();
  }

  /// Some invariant user of it is no collective's operand in the end: it is needed in the loop.
  bool leads_elsewhere(const Instruction* i) const {
    std::vector<const Instruction*> work{i};
    std::unordered_set<const Instruction*> seen;
    while (!work.empty()) {
      const Instruction* x = work.back();
      work.pop_back();
      if (!seen.insert(x).second) continue;
      if (x == out_) return true;
      for (const Instruction* u : x->users()) {
        if (!motion_.is_invariant(u)) return true;
        if (!ir::is_collective(u->opcode)) work.push_back(u);
      }
    }
    return false;
  }

  // ----- what is added up

  std::size_t postpone() {
    std::size_t count = 0;
    const std::size_t carried = loop_->shape.elements.size();
    for (std::size_t k = 0; k < carried; ++k) count += postpone(k) ? 1 : 0;
    return count;
  }

  bool has_one_use(const Instruction* i) const {
    return i->index < before_ && gone_.count(i) == 0 && i->use_count() == 1 &&
           i->control_predecessors().empty();
  }

  bool is_tested(std::size_t k) const {
    const ir::UserList users = view_.condition().parameter(0)->users();
    return std::any_of(users.begin(), users.end(), [&](const Instruction* user) {
      return ir::WhileView::carry_of(*user) == k;
    });
  }

  /// carried = op(carried, all-reduce(x)), seen by nobody before the loop is over.
  bool postpone(std::size_t k) {
    const std::vector<Instruction*> reads = view_.reads(k);
    Instruction* read = reads.empty() ? nullptr : reads.front();
    Instruction* next = out_->operand(k);
    if (reads.size() != 1 || !has_one_use(read) || is_tested(k)) return false;
    if (read->users().front() != next || !has_one_use(next)) return false;
    if (next->operands().size() != 2 || !ir::is_commutative(next->opcode)) return false;
    const Opcode op = next->opcode;
    const auto neutral = ir::identity_of(op, next->shape.dtype);
    if (!neutral || !next->shape.is_array() || next->shape != read->shape) return false;
    const std::size_t at = next->operand(0) == read ? 1 : 0;
    std::vector<Instruction*> chain;
    Instruction* all = next->operands()[at];
    while (only_moves(*all) && has_one_use(all)) {
      chain.push_back(all);
      all = all->operand(0);
    }
    if (!all->is(Opcode::all_reduce) || !ir::is_plain_collective(*all) || !has_one_use(all)) {
      return false;
    }
    if (ir::as_binary_reducer(*all->called().at(0)) != op) return false;
    // Its own part in the loop, the sum of all devices' parts behind it.
    postponed_.push_back(all);
    gone_.insert(all);
    Instruction* first = inits_[k];
    outside_.metadata = all->metadata;
    inits_[k] = outside_.splat(outside_.constant(*neutral), next->shape.dims);
    Instruction* part = outside_.get_tuple_element(loop_, std::int64_t(k));
    part->shape = next->shape;
    Instruction* total = same_collective(outside_, *all, {part}, next->shape);
    if (!is_splat_of(*first, *neutral)) {
      outside_.metadata = next->metadata;
      total = outside_.binary(op, first, total);
    }
    outside_.metadata = loop_->metadata;
    results_[k] = total;
    parts_.insert(part);
    return true;
  }

  // -----

  void finish() {
    ir::set_inits(loop_, inits_);
    motion_.add_carries();
    for (Instruction* all : postponed_) all->replace_all_uses_with(all->operand(0));
    for (Instruction* user : loop_->users()) {
      const auto it = results_.find(std::size_t(user->get<ir::GetTupleElementAttrs>().index));
      if (it == results_.end() || parts_.count(user) > 0) continue;
      if (loop_->parent->root() == user) it->second->sharding = user->sharding;
      user->replace_all_uses_with(it->second);
    }
    motion_.tidy();
  }

  ir::WhileView view_;
  Instruction* loop_;
  ir::Builder outside_;
  Instruction *in_, *out_;
  std::int64_t before_;              ///< instructions of the body as it was
  std::vector<Instruction*> inits_;  ///< what carries are before the loop
  ir::LoopMotion motion_;
  std::unordered_set<const Instruction*> gone_;   ///< from the body
  std::vector<Instruction*> postponed_;           ///< in the body: own parts are added
  std::map<std::size_t, Instruction*> results_;   ///< after the loop
  std::unordered_set<const Instruction*> parts_;  ///< each device's own of these
};

}  // namespace

std::size_t move_collectives_out_of_loops(ir::Module* module) {
  const ir::RepeatedLoops loops(*module);
  std::size_t total = 0;
  // Callees first: what leaves an inner loop may leave the one around it.
  for (const auto& c : module->computations()) {
    for (Instruction* i : loops.in(*c)) total += Loop(i).run();
  }
  return total;
}

}  // namespace tessera::spmd
