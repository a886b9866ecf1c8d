// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "src/ir/hooks.h"
#include "src/passes/simplify.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

bool can_inline(const Instruction& i) {
  if (i.called.size() != 1) return false;
  if (i.is(Opcode::call) || i.is(Opcode::fusion)) return true;
  if (!i.is(Opcode::custom_call)) return false;
  const std::string& target = i.get<ir::CustomCallAttrs>().target;
  // A manual computation is left where nothing was partitioned: on one device.
  return target == ir::kCustomPartitioningTarget || target == ir::kManualComputationTarget;
}

/// Appends the callee's instructions to the caller; returns what the call's users shall use.
Instruction* expand(ir::Computation* caller, const Instruction& call) {
  const ir::Computation& callee = *call.called[0];
  std::map<const Instruction*, Instruction*> copies;  // looked up, never walked
  for (const auto& i : callee.instructions()) {
    if (i->is(Opcode::parameter)) {
      copies[i.get()] = call.operands.at(std::size_t(i->get<ir::ParameterAttrs>().number));
      continue;
    }
    auto copy = std::make_unique<Instruction>(*i);
    for (Instruction*& o : copy->operands) o = copies.at(o);
    for (Instruction*& o : copy->control_predecessors) o = copies.at(o);
    if (copy->metadata.empty()) copy->metadata = call.metadata;
    copies[i.get()] = caller->add(std::move(copy));
  }
  return copies.at(callee.root());
}

}  // namespace

std::size_t inline_calls(ir::Module* module) {
  std::size_t count = 0;
  // Callees come first, so that what is copied has no calls any more.
  for (const auto& c : module->computations()) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (can_inline(*i)) calls.push_back(i.get());
    }
    if (calls.empty()) continue;
    std::unordered_map<Instruction*, Instruction*> replaced;
    for (Instruction* call : calls) replaced[call] = expand(c.get(), *call);
    c->replace_all_uses(replaced);
    c->sort_topologically();
    c->remove_dead();
    count += calls.size();
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
