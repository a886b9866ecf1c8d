// SPDX-License-Identifier: Apache-2.0
// The number of instructions of a kind in all computations of a module.
#pragma once

#include "src/ir/module.h"

namespace tessera::testing {

template <class Is>
int count_if(const ir::Module& module, Is is) {
  int n = 0;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) n += is(*i) ? 1 : 0;
  }
  return n;
}

inline int count_of(const ir::Module& module, ir::Opcode op) {
  return count_if(module, [op](const ir::Instruction& i) { return i.is(op); });
}

inline int count_collectives(const ir::Module& module) {
  return count_if(module, [](const ir::Instruction& i) { return ir::is_collective(i.opcode); });
}

}  // namespace tessera::testing
