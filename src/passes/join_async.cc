// SPDX-License-Identifier: Apache-2.0
// Replaces asynchronous start/done pairs by synchronous collectives.
#include "src/passes/join_async.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

std::optional<Opcode> plain(Opcode start) {
  switch (start) {
    case Opcode::all_gather_start:
      return Opcode::all_gather;
    case Opcode::all_reduce_start:
      return Opcode::all_reduce;
    case Opcode::collective_permute_start:
      return Opcode::collective_permute;
    case Opcode::copy_start:
      return Opcode::copy;
    default:
      return std::nullopt;
  }
}

bool is_done(Opcode op) {
  return op == Opcode::all_gather_done || op == Opcode::all_reduce_done ||
         op == Opcode::collective_permute_done || op == Opcode::copy_done;
}

}  // namespace

std::size_t join_async(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) {
    std::vector<Instruction*> dones;
    for (const auto& i : c->instructions()) {
      if (is_done(i->opcode) && plain(i->operand(0)->opcode)) dones.push_back(i.get());
    }
    if (dones.empty()) continue;
    std::unordered_map<Instruction*, Instruction*> replaced;
    for (Instruction* done : dones) {
      const Instruction& start = *done->operand(0);
      auto joined = std::make_unique<Instruction>(start);
      joined->opcode = *plain(start.opcode);
      joined->shape = done->shape;
      joined->sharding = done->sharding;
      if (joined->is(Opcode::copy)) joined->attrs = {};
      replaced[done] = c->add(std::move(joined));
    }
    c->replace_all_uses(replaced);
    c->sort_topologically();
    c->remove_dead();
    count += dones.size();
  }
  return count;
}

}  // namespace tessera::passes
