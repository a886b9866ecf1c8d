// SPDX-License-Identifier: Apache-2.0
// Computations reached from the entry by what runs on devices, not by reducers and the like.
#include "src/ir/analysis/device_computations.h"

#include <unordered_set>

namespace tessera::ir {

bool is_manual_computation(const Instruction& i) { return i.is(Opcode::manual_computation); }

bool is_partly_manual(const Instruction& i) {
  return is_manual_computation(i) && i.called().size() == 1 &&
         i.called()[0]->root()->has_sharding();
}

std::vector<Computation*> device_callees(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::call:
      return i.called();
    case Opcode::manual_computation:
      if (is_partly_manual(i)) return i.called();
      return {};
    default:
      return {};
  }
}

std::vector<Computation*> device_computations(const Module& module) {
  std::unordered_set<const Computation*> reached{module.entry()};
  // Computations stand behind their callees, so that callers are met first from the end.
  const auto& all = module.computations();
  for (auto c = all.rbegin(); c != all.rend() && reached.size() < all.size(); ++c) {
    if (!reached.count(c->get())) continue;
    for (const auto& i : (*c)->instructions()) {
      for (Computation* callee : device_callees(*i)) reached.insert(callee);
    }
  }
  std::vector<Computation*> list;
  for (const auto& c : all) {
    if (reached.count(c.get())) list.push_back(c.get());
  }
  return list;
}

}  // namespace tessera::ir
