// SPDX-License-Identifier: Apache-2.0
// Replaces products with converted predicates by selects.
#include "src/passes/products/select_by_predicates.h"

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

Instruction* choice(const Instruction& product, ir::Builder& b) {
  if (!is_floating(product.shape.dtype) && !is_complex(product.shape.dtype)) return nullptr;
  for (const std::size_t k : {0, 1}) {
    const Instruction* truth = product.operand(k);
    if (!truth->is(Opcode::convert) || truth->operand(0)->shape.dtype != DType::pred) continue;
    Instruction* zero = b.zero(product.shape.dtype);
    return b.select(truth->operand(0), product.operand(1 - k),
                    product.shape.is_scalar() ? zero : b.splat(zero, product.shape.dims));
  }
  return nullptr;
}

}  // namespace

std::size_t select_by_predicates(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("select-by-predicates").add(Opcode::multiply, choice));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
