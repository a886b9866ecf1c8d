// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>

#include "src/passes/alike.h"
#include "src/passes/simplify.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

bool equal(const Instruction& a, const Instruction& b) {
  return a.operands == b.operands && equal_but_for_operands(a, b);
}

/// Equal instructions have equal keys; the rest is compared.
std::string key_of(const Instruction& i) {
  std::string key = std::to_string(int(i.opcode));
  for (const Instruction* o : i.operands) key += "," + std::to_string(o->index);
  key += i.shape.to_string();
  for (const ir::Computation* c : i.called) key += "," + std::to_string(c->instructions().size());
  if (i.is(Opcode::constant)) {
    const Literal& v = i.get<ir::ConstantAttrs>().value;
    const std::size_t n = std::min<std::size_t>(v.byte_count(), 64);
    if (!v.is_tuple()) key.append(reinterpret_cast<const char*>(v.bytes()), n);
  }
  return key;
}

/// Other than what any use has for itself: constants, what counts, a scalar everywhere.
bool computes(const Instruction& i) {
  if (i.is(Opcode::constant) || i.is(Opcode::iota)) return false;
  return !i.is(Opcode::broadcast) || i.operand(0)->shape.rank() > 0;
}

std::size_t run(ir::Computation* c) {
  std::size_t count = 0;
  std::map<std::string, std::vector<Instruction*>> seen;
  std::unordered_map<Instruction*, Instruction*> replaced;
  for (const auto& i : c->instructions()) {
    for (Instruction*& o : i->operands) {
      const auto it = replaced.find(o);
      if (it != replaced.end()) o = it->second;
    }
    if (!is_pure(*i) || i.get() == c->root()) continue;
    auto& alike = seen[key_of(*i)];
    Instruction* same = nullptr;
    for (Instruction* other : alike) {
      if (equal(*other, *i)) same = other;
    }
    if (same != nullptr) {
      replaced[i.get()] = same;
      count += i->shape.is_array() && i->shape.rank() > 0 && computes(*i);
    } else {
      alike.push_back(i.get());
    }
  }
  c->replace_all_uses(replaced);
  if (!replaced.empty()) c->remove_dead();
  return count;
}

}  // namespace

std::size_t eliminate_common(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) count += run(c.get());
  return count;
}

}  // namespace tessera::passes
