// SPDX-License-Identifier: Apache-2.0
// A gather that takes each element from one of a few stacked arrays becomes a chain of selects,
// which fuses with their producers and consumers, so that the stack is never materialised.
#include "src/passes/indexed/strength_reduce_gathers.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Each element selects among all of them.
constexpr std::size_t kMaxArrays = 8;

/// The dim of the stack along which each element is looked up at its own place; -1 if it is no such
/// gather.
std::int64_t stacked_dim(const Instruction& gather) {
  const ir::IndexedDims dims = ir::indexed_dims(gather);
  const Shape& stack = gather.operand(0)->shape;
  const bool in_order = std::is_sorted(dims.array_batching.begin(), dims.array_batching.end()) &&
                        std::is_sorted(dims.batching.begin(), dims.batching.end());
  if (dims.mapped.size() != 1 || element_count(dims.sizes) != 1 || !in_order ||
      std::int64_t(dims.array_batching.size()) != stack.rank() - 1) {
    return -1;
  }
  // The indices may have dims of one besides.
  for (std::size_t d = 0; d < dims.batch.size(); ++d) {
    if (dims.batch_sizes[d] != 1 && !contains(dims.batching, std::int64_t(d))) return -1;
  }
  return dims.mapped[0];
}

Instruction* chosen(const Instruction& gather, ir::Builder& builder) {
  const Instruction& stack = *gather.operand(0);
  if (!stack.is(Opcode::concatenate) || stack.operands().size() > kMaxArrays ||
      !gather.control_predecessors().empty()) {
    return nullptr;
  }
  const std::int64_t dim = stacked_dim(gather);
  if (dim < 0 || stack.get<ir::DimensionsAttrs>().dims.at(0) != dim ||
      std::any_of(stack.operands().begin(), stack.operands().end(),
                  [dim](const Instruction* o) { return o->shape.dim(dim) != 1; })) {
    return nullptr;
  }
  const Dims& dims = gather.shape.dims;
  Instruction* index = builder.reshape(gather.operand(1), dims);
  Instruction* out = builder.reshape(stack.operands().back(), dims);
  // Indices outside mean the first or the last.
  for (std::size_t k = stack.operands().size() - 1; k-- > 0;) {
    Instruction* at = builder.splat(builder.scalar(index->shape.dtype, double(k)), dims);
    out = builder.select(builder.compare(ir::Direction::le, index, at),
                         builder.reshape(stack.operands()[k], dims), out);
  }
  return out;
}

}  // namespace

std::size_t strength_reduce_gathers(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("strength-reduce-gathers").add(Opcode::gather, chosen));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
