// SPDX-License-Identifier: Apache-2.0
// Makes reductions of windows that see all elements of the dims that they see.
#include "src/passes/reductions/windows_as_reductions.h"

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

Instruction* as_reduction(const Instruction& i, ir::Builder& b) {
  if (i.shape.is_tuple || i.operands().size() != 2 || !i.control_predecessors().empty()) {
    return nullptr;
  }
  const Shape& x = i.operand(0)->shape;
  if (x.dtype != i.shape.dtype) return nullptr;
  const auto& window = i.get<ir::WindowAttrs>().dims;
  Dims reduced;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    ir::WindowDim whole;
    whole.size = x.dim(d);
    // There is one place for it, so that it doesn't matter how far apart they are.
    whole.stride = window[std::size_t(d)].stride;
    if (window[std::size_t(d)] == ir::WindowDim{}) continue;
    if (x.dim(d) == 0 || window[std::size_t(d)] != whole) return nullptr;
    reduced.push_back(d);
  }
  if (reduced.empty()) return nullptr;
  Instruction* sums = b.reduce(i.operand(0), i.operand(1), reduced, i.called().at(0));
  return b.reshape(sums, i.shape.dims);
}

}  // namespace

std::size_t windows_as_reductions(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("windows-as-reductions").add(Opcode::reduce_window, as_reduction));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
