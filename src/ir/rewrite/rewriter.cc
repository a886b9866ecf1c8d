// SPDX-License-Identifier: Apache-2.0
// Rewriter: one round of replacements in a computation.
#include "src/ir/rewrite/rewriter.h"

#include <algorithm>

namespace tessera::ir {

Rewriter::Rewriter(Computation* computation)
    : builder_(computation), size_(computation->instructions().size()) {}

UserList Rewriter::users(const Instruction* i) const {
  UserList all = i->users();
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const Instruction* u) { return std::size_t(u->index) >= size_; }),
            all.end());
  return all;
}

bool Rewriter::untouched(const Instruction* i) const {
  return std::size_t(i->index) < size_ && touched_.count(i) == 0;
}

bool Rewriter::has_one_use(const Instruction* i) const {
  if (!untouched(i) || i == computation()->root() || !i->control_predecessors().empty()) {
    return false;
  }
  // Ends at the second use: constants have thousands.
  std::size_t count = 0;
  for (const Use& use : i->uses()) {
    if (use.user != nullptr && std::size_t(use.user->index) < size_ && ++count > 1) return false;
  }
  return count == 1;
}

Builder& Rewriter::builder(const Instruction* of) {
  builder_.metadata = of->metadata;
  return builder_;
}

Instruction* Rewriter::clone_with_operands(const Instruction& of,
                                           std::vector<Instruction*> operands) {
  return emit_like(builder(&of), of, std::move(operands));
}

Instruction* Rewriter::clone_with_operands(const Instruction& of,
                                           std::vector<Instruction*> operands, const Shape& shape) {
  return emit_like(builder(&of), of, std::move(operands), &shape);
}

void Rewriter::replace(Instruction* from, Instruction* to) {
  // The root says how the results are sharded.
  if (from == computation()->root() && to->sharding.empty() && !to->is(Opcode::parameter)) {
    to->sharding = from->sharding;
  }
  replaced_[from] = to;
  touch(from);
  touch(to);
}

void Rewriter::erase(Instruction* i) {
  erased_.push_back(i);
  touch(i);
}

std::size_t Rewriter::finish() {
  const std::size_t count = replaced_.size() + erased_.size();
  if (count == 0) return 0;
  computation()->replace_all_uses(replaced_);
  computation()->erase(erased_);
  computation()->sort_topologically();
  computation()->remove_dead();
  return count;
}

}  // namespace tessera::ir
