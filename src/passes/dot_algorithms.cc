// SPDX-License-Identifier: Apache-2.0
// Conversions in front of dots.
#include "src/passes/dot_algorithms.h"

#include <vector>

#include "src/ir/analysis/dot_kind.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::passes {

std::size_t convert_dot_operands(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) {
    std::vector<ir::Instruction*> dots;
    for (const auto& i : c->instructions()) {
      if (i->is(ir::Opcode::dot) && ir::takes_bf16(*i)) dots.push_back(i.get());
    }
    ir::Builder b(c.get());
    std::size_t here = 0;
    for (ir::Instruction* dot : dots) {
      for (std::size_t k = 0; k < 2; ++k) {
        ir::Instruction* o = dot->operand(k);
        if (o->shape.dtype != DType::f32) continue;
        b.metadata = dot->metadata;
        const bool was_bf16 =
            o->is(ir::Opcode::convert) && o->operand(0)->shape.dtype == DType::bf16;
        dot->set_operand(k, was_bf16 ? o->operand(0) : b.convert(o, DType::bf16));
        ++here;
      }
    }
    if (here > 0) c->sort_topologically();
    count += here;
  }
  return count;
}

}  // namespace tessera::passes
