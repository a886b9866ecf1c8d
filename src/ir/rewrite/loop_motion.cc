// SPDX-License-Identifier: Apache-2.0
// Copies of invariants in front of a loop, and carries for them.
#include "src/ir/rewrite/loop_motion.h"

#include <algorithm>
#include <utility>

namespace tessera::ir {

LoopMotion::LoopMotion(Instruction* loop, CloneOptions options)
    : view_(*loop), loop_(loop), outside_(view_.body(), loop->parent, std::move(options)) {}

void LoopMotion::find_invariants(const std::function<bool(const Instruction&)>& may) {
  for (const auto& i : view_.body().instructions()) {
    if (const auto k = WhileView::carry_of(*i)) {
      if (!view_.is_invariant(*k) || !i->shape.is_array()) continue;
      invariant_.insert(i.get());
      outside_.map(i.get(), view_.init(*k));
    } else if (may(*i) && std::all_of(i->operands().begin(), i->operands().end(),
                                      [&](const Instruction* o) { return is_invariant(o); })) {
      invariant_.insert(i.get());
    }
  }
}

bool LoopMotion::is_read_in_trips(const Instruction* i) const {
  const UserList users = i->users();
  return std::any_of(users.begin(), users.end(),
                     [&](const Instruction* user) { return !is_invariant(user); });
}

void LoopMotion::move(Instruction* i) {
  values_.push_back(outside_.clone_with_operands(*i));
  moved_.push_back(i);
}

void LoopMotion::add_carries() {
  const std::vector<Instruction*> reads = ir::add_carries(loop_, values_);
  for (std::size_t n = 0; n < reads.size(); ++n) moved_[n]->replace_all_uses_with(reads[n]);
}

void LoopMotion::tidy() {
  for (Computation* c : {&view_.body(), loop_->parent}) {
    c->sort_topologically();
    c->remove_dead();
  }
}

}  // namespace tessera::ir
