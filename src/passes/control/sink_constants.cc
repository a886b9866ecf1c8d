// SPDX-License-Identifier: Apache-2.0
// What is generated anew wherever it is read need not go round with a loop.
#include "src/passes/control/sink_constants.h"

#include <vector>

#include "src/ir/analysis/repeated_loops.h"
#include "src/ir/cloner.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

bool is_scalar_constant(const Instruction& i) {
  return i.is(Opcode::constant) && i.shape.rank() == 0 && !i.get<ir::ConstantAttrs>().elided;
}

bool is_generated_anew(const Instruction& i) {
  return i.is(Opcode::iota) || is_scalar_constant(i) ||
         (i.is(Opcode::broadcast) && is_scalar_constant(*i.operand(0)));
}

/// Users of carry `k` in the body or the condition get a copy of `value`, except for the body's
/// root, which passes it on. Whether there were any.
bool sink(Computation* into, const Instruction& value, std::size_t k) {
  ir::Cloner cloner(*value.parent, into);
  bool any = false;
  for (Instruction* read : into->parameter(0)->users()) {
    if (ir::WhileView::carry_of(*read) != k) continue;
    for (Instruction* user : read->users()) {
      if (user == into->root() && user->is(Opcode::tuple)) continue;
      Instruction* made = cloner.clone_with_operands(value);
      for (std::size_t o = 0; o < user->operands().size(); ++o) {
        if (user->operand(o) == read) user->set_operand(o, made);
      }
      any = true;
    }
    if (read == into->root()) into->set_root(cloner.clone_with_operands(value));
  }
  return any;
}

std::size_t sink_into(Instruction* loop) {
  const ir::WhileView view(*loop);
  if (!view.has_separate_carries()) return 0;
  std::size_t count = 0;
  for (std::size_t k = 0; k < view.size(); ++k) {
    if (!view.is_invariant(k) || !is_generated_anew(*view.init(k))) continue;
    bool any = false;
    for (Computation* c : {&view.condition(), &view.body()}) any |= sink(c, *view.init(k), k);
    for (Instruction* user : loop->users()) {
      if (user == loop->parent->root()) continue;
      if (std::size_t(user->get<ir::GetTupleElementAttrs>().index) != k) continue;
      any |= user->use_count() > 0;
      user->replace_all_uses_with(view.init(k));
    }
    count += any ? 1 : 0;
  }
  if (count == 0) return 0;
  for (Computation* c : {&view.condition(), &view.body()}) {
    c->sort_topologically();
    c->remove_dead();
  }
  return count;
}

}  // namespace

std::size_t sink_constants_into_loops(ir::Module* module) {
  const ir::RepeatedLoops loops(*module);
  std::size_t total = 0;
  // Callers first: what sinks into a loop may sink into one that stands in it.
  const auto& all = module->computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    for (Instruction* loop : loops.in(**c)) total += sink_into(loop);
  }
  return total;
}

}  // namespace tessera::passes
