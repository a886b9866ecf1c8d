// SPDX-License-Identifier: Apache-2.0
// What passes share that put a program in the place of an op.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::passes {

/// Calls `expand(op)` for each op of that opcode in a computation. It appends instructions and has
/// the op's users use them; what it appended then stands where the op stood, which goes. Returns
/// how many.
template <class F>
std::size_t expand_in_place(ir::Computation* computation, const std::vector<ir::Opcode>& opcodes,
                            F&& expand) {
  std::vector<ir::Instruction*> ops;
  for (const auto& i : computation->instructions()) {
    for (const ir::Opcode op : opcodes) {
      if (i->is(op)) ops.push_back(i.get());
    }
  }
  if (ops.empty()) return 0;
  const std::size_t before = computation->instructions().size();
  std::unordered_map<const ir::Instruction*, std::pair<std::size_t, std::size_t>> made;
  for (ir::Instruction* op : ops) {
    const std::size_t from = computation->instructions().size();
    expand(op);
    made[op] = {from, computation->instructions().size()};
  }
  std::vector<ir::Instruction*> order;
  for (std::size_t n = 0; n < before; ++n) {
    ir::Instruction* i = computation->instructions()[n].get();
    if (const auto found = made.find(i); found != made.end()) {
      for (std::size_t k = found->second.first; k < found->second.second; ++k) {
        order.push_back(computation->instructions()[k].get());
      }
    }
    order.push_back(i);
  }
  computation->set_order(order);
  computation->erase(ops);
  computation->remove_dead();
  return ops.size();
}

}  // namespace tessera::passes
