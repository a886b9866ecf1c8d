// SPDX-License-Identifier: Apache-2.0
// Instructions that compute what an earlier one does become that one.
#include "src/passes/eliminate_common.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/ir/analysis/equivalence.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Of what is compared.
std::uint64_t hash_of(const Instruction& i) {
  std::uint64_t hash = ir::operation_hash(i);
  for (const Instruction* o : i.operands()) hash = ir::mix_hash(hash, std::uint64_t(o->index));
  return hash;
}

/// Other than what any use has for itself: constants, what counts, a scalar everywhere.
bool computes(const Instruction& i) {
  if (i.is(Opcode::constant) || i.is(Opcode::iota)) return false;
  return !i.is(Opcode::broadcast) || i.operand(0)->shape.rank() > 0;
}

std::size_t run(ir::Computation* c) {
  std::size_t count = 0;
  std::unordered_map<std::uint64_t, std::vector<Instruction*>> seen;
  bool any = false;
  for (const auto& i : c->instructions()) {
    if (!ir::is_pure(*i) || i.get() == c->root()) continue;
    auto& equal = seen[hash_of(*i)];
    Instruction* same = nullptr;
    for (Instruction* other : equal) {
      if (other->operands() == i->operands() && ir::same_operation(*other, *i)) same = other;
    }
    if (same != nullptr) {
      // Users come later: they are compared by what they use now.
      i->replace_all_uses_with(same);
      any = true;
      count += i->shape.is_array() && i->shape.rank() > 0 && computes(*i);
    } else {
      equal.push_back(i.get());
    }
  }
  if (any) c->remove_dead();
  return count;
}

}  // namespace

std::size_t eliminate_common(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) count += run(c.get());
  return count;
}

}  // namespace tessera::passes
