// SPDX-License-Identifier: Apache-2.0
// Deduplicates reducer computations.
#include "src/passes/reductions/share_reducers.h"

#include <map>
#include <utility>

#include "src/ir/rewrite/builder.h"

namespace tessera::passes {
namespace {

using ir::Opcode;

/// Its computation says how two elements are combined.
bool combines(const ir::Instruction& i) {
  return !i.is(Opcode::call) && !i.is(Opcode::while_) && !i.is(Opcode::conditional) &&
         !i.is(Opcode::custom_call) && !ir::is_printed_as_custom_call(i.opcode);
}

}  // namespace

std::size_t share_reducers(ir::Module* module) {
  std::map<std::pair<Opcode, DType>, ir::Computation*> first;
  std::size_t count = 0;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!combines(*i)) continue;
      for (std::size_t k = 0; k < i->called().size(); ++k) {
        ir::Computation* reducer = i->called(k);
        const std::optional<Opcode> op = ir::as_binary_reducer(*reducer);
        if (!op || !reducer->root()->shape.is_scalar()) continue;
        const auto [known, fresh] = first.try_emplace({*op, reducer->root()->shape.dtype}, reducer);
        count += known->second != reducer;
        i->set_called(k, known->second);
      }
    }
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
