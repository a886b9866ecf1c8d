// SPDX-License-Identifier: Apache-2.0
// Common subexpression elimination for collectives.
#include "src/spmd/dedupe_collectives.h"

#include <cstdint>
#include <vector>

#include "src/ir/analysis/equivalence.h"

namespace tessera::spmd {

bool dedupe_collectives(ir::Module* module) {
  bool any = false;
  for (const auto& computation : module->computations()) {
    const auto& all = computation->instructions();
    // Those of one operand are few: a chain of them, the latest first.
    constexpr std::int32_t kNone = -1;
    std::vector<std::int32_t> latest(all.size(), kNone), before(all.size(), kNone);
    for (const auto& i : all) {
      if (!ir::is_collective(i->opcode) || i->operands().empty()) continue;
      std::int32_t& newest = latest[std::size_t(i->operand(0)->index)];
      const auto equals = [&](const ir::Instruction& other) {
        return other.operands() == i->operands() && ir::same_operation(other, *i);
      };
      std::int32_t k = newest;
      while (k != kNone && !equals(*all[std::size_t(k)])) k = before[std::size_t(k)];
      if (k != kNone) {
        // Users come later in the order, and see the first one.
        i->replace_all_uses_with(all[std::size_t(k)].get());
        any = true;
        continue;
      }
      before[std::size_t(i->index)] = newest;
      newest = std::int32_t(i->index);
    }
  }
  return any;
}

}  // namespace tessera::spmd
