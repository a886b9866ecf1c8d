// SPDX-License-Identifier: Apache-2.0
// Clones bodies of loops and branches so that each has a single caller.
#include "src/passes/control/separate_bodies.h"

#include <set>
#include <unordered_map>
#include <vector>

#include "src/ir/cloner.h"

namespace tessera::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

bool has_bodies(const Instruction& i) { return i.is(Opcode::while_) || i.is(Opcode::conditional); }

/// What no loop or branch runs: the entry, and what calls and reductions apply.
std::vector<Computation*> not_bodies(const ir::Module& module) {
  std::set<const Computation*> bodies;  // looked up, never walked
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (has_bodies(*i)) bodies.insert(i->called().begin(), i->called().end());
    }
  }
  std::vector<Computation*> out;
  for (const auto& c : module.computations()) {
    if (bodies.count(c.get()) == 0) out.push_back(c.get());
  }
  return out;
}

/// Instructions that there would be.
double separated_size(const ir::Module& module, const std::vector<Computation*>& roots) {
  std::unordered_map<const Computation*, double> sizes;
  for (const auto& c : module.computations()) {
    double size = double(c->instructions().size());
    for (const auto& i : c->instructions()) {
      if (!has_bodies(*i)) continue;
      for (const Computation* body : i->called()) size += sizes[body];
    }
    sizes[c.get()] = size;
  }
  double total = 0;
  for (const Computation* c : roots) total += sizes[c];
  return total;
}

}  // namespace

std::size_t separate_bodies(ir::Module* module, std::size_t max_instructions) {
  std::vector<Computation*> pending = not_bodies(*module);
  if (separated_size(*module, pending) > double(max_instructions)) return 0;
  std::size_t count = 0;
  std::set<const Computation*> taken;  // looked up, never walked
  // Callers first: a copy's own loops are met with it.
  while (!pending.empty()) {
    Computation* c = pending.back();
    pending.pop_back();
    for (const auto& i : c->instructions()) {
      if (!has_bodies(*i)) continue;
      for (std::size_t k = 0; k < i->called().size(); ++k) {
        Computation* body = i->called(k);
        if (!taken.insert(body).second) {
          body = ir::clone_computation(*body);
          i->set_called(k, body);
          taken.insert(body);
          ++count;
        }
        pending.push_back(body);
      }
    }
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
