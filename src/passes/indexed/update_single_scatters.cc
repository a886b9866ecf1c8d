// SPDX-License-Identifier: Apache-2.0
// A window that isn't wholly inside of the array isn't written: what is there is written again, at
// the place that updates of slices move such a window to.
#include "src/passes/indexed/update_single_scatters.h"

#include <vector>

#include "src/ir/rewrite/on_arrays.h"
#include "src/ir/rewrite/patterns.h"
#include "src/passes/indexed/index_components.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of a larger one it would take a pass to read what is there.
constexpr std::int64_t kMostWritten = 64;

Instruction* update_of(const Instruction& scatter, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  Instruction *array = scatter.operand(0), *updates = scatter.operand(2);
  const ir::Computation& reducer = *scatter.called().front();
  const Dims& window = dims.sizes;
  const std::int64_t elements = updates->shape.element_count();
  if (element_count(dims.batch_sizes) != 1 || !dims.batching.empty() || elements == 0 ||
      elements > kMostWritten || dims.mapped.empty() || ir::not_on_arrays(reducer) ||
      reducer.root()->shape.is_tuple || reducer.root()->shape.dtype != array->shape.dtype ||
      updates->shape.dtype != array->shape.dtype) {
    return nullptr;
  }
  const DType type = scatter.operand(1)->shape.dtype;
  std::vector<Instruction*> starts(window.size(), nullptr);
  Instruction* inside = nullptr;
  for (std::size_t k = 0; k < dims.mapped.size(); ++k) {
    const auto d = std::size_t(dims.mapped[k]);
    Instruction* n = b.reshape(index_component(b, scatter.operand(1), dims, std::int64_t(k)), {});
    starts[d] = n;
    const std::int64_t places = array->shape.dim(std::int64_t(d)) - window[d] + 1;
    if (Instruction* fits = is_inside(b, n, places)) {
      inside = inside == nullptr ? fits : b.binary(Opcode::and_, inside, fits);
    }
  }
  for (Instruction*& start : starts) {
    if (start == nullptr) start = b.zero(type);
  }
  Instruction* there = b.dynamic_slice(array, starts, window);
  Instruction* const both[] = {there, b.reshape(updates, window)};
  Instruction* out = ir::on_arrays(b, reducer, both).at(0);
  if (inside != nullptr) out = b.select(b.splat(inside, window), out, there);
  return b.dynamic_update_slice(array, out, starts);
}

}  // namespace

std::size_t update_single_scatters(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("update-single-scatters").add(Opcode::scatter, update_of));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
