// SPDX-License-Identifier: Apache-2.0
// Lists the computations that run once per device.
#include <unordered_set>

#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {

using ir::Instruction;
using ir::Opcode;

std::vector<ir::Computation*> device_callees(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::call:
      return i.called();
    case Opcode::custom_call:
      if (manual::is_partly(i)) return i.called();
      return {};
    default:
      return {};
  }
}

std::vector<ir::Computation*> device_computations(const ir::Module& module) {
  std::unordered_set<const ir::Computation*> reached{module.entry()};
  // Computations stand behind their callees, so that callers are met first from the end.
  const auto& all = module.computations();
  for (auto c = all.rbegin(); c != all.rend() && reached.size() < all.size(); ++c) {
    if (!reached.count(c->get())) continue;
    for (const auto& i : (*c)->instructions()) {
      for (ir::Computation* callee : device_callees(*i)) reached.insert(callee);
    }
  }
  std::vector<ir::Computation*> list;
  for (const auto& c : all) {
    if (reached.count(c.get())) list.push_back(c.get());
  }
  return list;
}

}  // namespace tessera::spmd::propagation
