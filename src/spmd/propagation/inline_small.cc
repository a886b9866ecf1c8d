// SPDX-License-Identifier: Apache-2.0
// Functions of a few instructions that are called once, and pads: front ends wrap a pad or a choice
// of indices so. What belongs together would not be seen otherwise.
#include <algorithm>
#include <unordered_map>

#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr std::size_t kFew = 16;

bool is_pad(const ir::Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& x) { return x->is(Opcode::pad); });
}

std::unordered_map<const ir::Computation*, int> count_calls(const ir::Module& module) {
  std::unordered_map<const ir::Computation*, int> calls;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      for (const ir::Computation* callee : i->called) ++calls[callee];
    }
  }
  return calls;
}

bool is_small_call(const Instruction& i) {
  if (!i.is(Opcode::call) || i.called.size() != 1 || manual::is_call(i)) return false;
  if (i.has_sharding() || !i.control_predecessors.empty()) return false;
  if (i.frontend_attributes.count("inlineable") > 0) return false;
  const ir::Computation& callee = *i.called[0];
  if (callee.instructions().size() > kFew || callee.root()->is(Opcode::parameter)) return false;
  // What a caller's argument shall look like within is a statement of its own.
  for (const Instruction* p : callee.parameters()) {
    if (p->has_sharding()) return false;
  }
  return std::all_of(callee.instructions().begin(), callee.instructions().end(),
                     [](const auto& x) { return !ir::has_side_effect(x->opcode); });
}

/// Copies the callee's instructions; returns the root's copy.
Instruction* expand(ir::Computation* caller, const Instruction& call) {
  const ir::Computation& callee = *call.called[0];
  std::unordered_map<const Instruction*, Instruction*> copies;
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

void inline_small_calls(ir::Module* module) {
  bool any = false;
  const auto counts = count_calls(*module);
  for (ir::Computation* c : device_computations(*module)) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (!is_small_call(*i)) continue;
      if (counts.at(i->called[0]) == 1 || is_pad(*i->called[0])) calls.push_back(i.get());
    }
    if (calls.empty()) continue;
    std::unordered_map<Instruction*, Instruction*> replaced;
    for (Instruction* call : calls) replaced[call] = expand(c, *call);
    c->replace_all_uses(replaced);
    c->sort_topologically();
    c->remove_dead();
    any = true;
  }
  if (any) module->remove_dead_computations();
}

}  // namespace tessera::spmd::propagation
