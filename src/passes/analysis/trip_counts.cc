// SPDX-License-Identifier: Apache-2.0
// Trip counts of loops that count.
#include "src/passes/analysis/trip_counts.h"

#include "src/ir/rewrite/while_view.h"

namespace tessera::passes {

std::size_t find_trip_counts(ir::Module* module) {
  std::size_t found = 0;
  for (const auto& computation : module->computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->is(ir::Opcode::while_)) continue;
      auto& attrs = i->edit<ir::WhileAttrs>();
      if (attrs.known_trip_count) continue;
      attrs.known_trip_count = ir::WhileView(*i).trips();
      found += attrs.known_trip_count.has_value();
    }
  }
  return found;
}

}  // namespace tessera::passes
