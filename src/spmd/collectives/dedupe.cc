// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/collectives/dedupe.h"

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::spmd {

namespace {

/// Channel ids tell collectives apart, not what they do.
bool same_but_channel(const ir::Attributes& a, const ir::Attributes& b) {
  if (const auto* x = std::get_if<ir::PermuteAttrs>(&a)) {
    const auto* y = std::get_if<ir::PermuteAttrs>(&b);
    return y && x->source_target_pairs == y->source_target_pairs;
  }
  const auto* x = std::get_if<ir::CollectiveAttrs>(&a);
  const auto* y = std::get_if<ir::CollectiveAttrs>(&b);
  if (!x || !y) return a == b;
  ir::CollectiveAttrs other = *y;
  other.channel_id = x->channel_id;
  return *x == other;
}

}  // namespace

bool dedupe_collectives(ir::Module* module) {
  bool any = false;
  for (const auto& computation : module->computations()) {
    std::map<std::pair<int, std::vector<std::int64_t>>, std::vector<ir::Instruction*>> seen;
    std::unordered_map<ir::Instruction*, ir::Instruction*> same;
    for (const auto& i : computation->instructions()) {
      if (!ir::is_collective(i->opcode)) continue;
      std::vector<std::int64_t> operands;
      for (const ir::Instruction* o : i->operands) operands.push_back(o->index);
      std::vector<ir::Instruction*>& others = seen[{int(i->opcode), operands}];
      bool found = false;
      for (ir::Instruction* other : others) {
        if (other->shape == i->shape && other->called == i->called &&
            same_but_channel(other->attrs, i->attrs)) {
          same[i.get()] = other;
          found = true;
          break;
        }
      }
      if (!found) others.push_back(i.get());
    }
    if (same.empty()) continue;
    computation->replace_all_uses(same);
    any = true;
  }
  return any;
}

}  // namespace tessera::spmd
