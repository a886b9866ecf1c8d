// SPDX-License-Identifier: Apache-2.0
// What an op weighs when its layouts are compared.
#include "src/spmd/rules/layout_work.h"

#include <algorithm>

#include "src/ir/analysis/cost.h"

namespace tessera::spmd {

double layout_work(const ir::Instruction& source) {
  const ir::Work work = ir::info(source.opcode).work;
  if (work == ir::Work::contraction) return ir::contraction_flops(source);
  double elements = ir::total_elements(source.shape);
  for (const ir::Instruction* o : source.operands()) {
    if (o->shape.is_array()) elements = std::max(elements, double(o->shape.element_count()));
  }
  constexpr double kPasses = 16;  // about the levels of a sort or a transform
  if (work == ir::Work::sort || work == ir::Work::transform) return elements * kPasses;
  if (work == ir::Work::factorization) {
    return elements * double(source.operand(0)->shape.dims.back());
  }
  return elements;
}

}  // namespace tessera::spmd
