// SPDX-License-Identifier: Apache-2.0
// How often each computation of a module runs.
#include "src/spmd/executions.h"

namespace tessera::spmd {

std::unordered_map<const ir::Computation*, double> executions(const ir::Module& module) {
  std::unordered_map<const ir::Computation*, double> times;
  times[module.entry()] = 1;
  const auto& all = module.computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    const double here = times[c->get()];
    for (const auto& i : (*c)->instructions()) {
      double each = here;
      if (i->is(ir::Opcode::while_)) {
        each *= double(i->get<ir::WhileAttrs>().known_trip_count.value_or(1));
      }
      for (const ir::Computation* callee : i->called()) times[callee] += each;
    }
  }
  return times;
}

}  // namespace tessera::spmd
