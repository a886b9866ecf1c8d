// SPDX-License-Identifier: Apache-2.0
// Finds the loops of a module that run more than once.
#include "src/ir/analysis/repeated_loops.h"

namespace tessera::ir {

RepeatedLoops::RepeatedLoops(const Module& module) {
  // Callers stand behind what they call.
  const auto& all = module.computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      for (const Computation* callee : i->called()) ++callers_[callee];
      if (!i->is(Opcode::conditional) && branches_.count(c->get()) == 0) continue;
      branches_.insert(i->called().begin(), i->called().end());
    }
  }
}

std::vector<Instruction*> RepeatedLoops::in(const Computation& c) const {
  std::vector<Instruction*> out;
  for (const auto& i : c.instructions()) {
    if (!i->is(Opcode::while_)) continue;
    // In a branch, devices may stand still that a loop without trips doesn't ask for.
    const auto trips = i->get<WhileAttrs>().known_trip_count;
    if (trips ? *trips < 2 : branches_.count(&c) > 0) continue;
    if (callers_.at(i->called(0)) == 1 && callers_.at(i->called(1)) == 1) out.push_back(i.get());
  }
  return out;
}

}  // namespace tessera::ir
