// SPDX-License-Identifier: Apache-2.0
// The walk that passes over instructions of one kind share.
#include "src/passes/replace_each.h"

#include <unordered_map>
#include <vector>

namespace tessera::passes {

using ir::Instruction;

namespace {

std::size_t replace_each_in(ir::Computation* c, const Candidate& candidate,
                            const Replacement& replacement) {
  std::vector<Instruction*> candidates;
  for (const auto& i : c->instructions()) {
    if (candidate(*i)) candidates.push_back(i.get());
  }
  std::unordered_map<Instruction*, Instruction*> replaced;
  ir::Builder builder(c);
  for (Instruction* i : candidates) {
    builder.metadata = i->metadata;
    Instruction* to = replacement(*i, builder);
    if (to == nullptr) continue;
    to->sharding = i->sharding;
    replaced[i] = to;
  }
  if (replaced.empty()) return 0;
  c->replace_all_uses(replaced);
  c->sort_topologically();
  c->remove_dead();
  return replaced.size();
}

}  // namespace

std::size_t replace_each(ir::Module* module, const Candidate& candidate,
                         const Replacement& replacement) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) {
    count += replace_each_in(c.get(), candidate, replacement);
  }
  return count;
}

std::size_t replace_each(ir::Module* module, ir::Opcode opcode, const Replacement& replacement) {
  return replace_each(
      module, [opcode](const Instruction& i) { return i.is(opcode); }, replacement);
}

}  // namespace tessera::passes
