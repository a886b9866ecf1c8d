// SPDX-License-Identifier: Apache-2.0
// A gather that takes each element from one of a few arrays stacked for it is a chain of selects:
// computed in one loop with what makes and uses them, so that no stack is held.
#include "src/passes/strength_reduce_gathers.h"

#include <algorithm>
#include <numeric>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Each is looked at for each element.
constexpr std::size_t kMaxArrays = 8;

/// The dim of the stack along which each element is looked up at its own place; -1 if it is no such
/// gather.
std::int64_t looked_up(const Instruction& gather) {
  const auto& g = gather.get<ir::GatherAttrs>();
  const Shape &stack = gather.operand(0)->shape, &indices = gather.operand(1)->shape;
  if (g.start_index_map.size() != 1 || g.collapsed_slice_dims != g.start_index_map ||
      !g.offset_dims.empty() || g.index_vector_dim < gather.shape.rank() ||
      indices.element_count() != gather.shape.element_count()) {
    return -1;
  }
  Dims places(std::size_t(gather.shape.rank()));
  std::iota(places.begin(), places.end(), 0);
  Dims others;
  for (std::int64_t d = 0; d < stack.rank(); ++d) {
    if (d != g.start_index_map[0]) others.push_back(d);
  }
  const std::int64_t dim = g.start_index_map[0];
  // The indices may have that dim too.
  const bool kept = g.start_indices_batching_dims == others &&
                    gather.shape.rank() == stack.rank() && gather.shape.dim(dim) == 1;
  const bool equal =
      g.operand_batching_dims == others && (kept || g.start_indices_batching_dims == places) &&
      std::all_of(g.slice_sizes.begin(), g.slice_sizes.end(), [](auto n) { return n == 1; });
  return equal ? dim : -1;
}

Instruction* chosen(const Instruction& gather, ir::Builder& builder) {
  const Instruction& stack = *gather.operand(0);
  if (!stack.is(Opcode::concatenate) || stack.operands().size() > kMaxArrays ||
      !gather.control_predecessors().empty()) {
    return nullptr;
  }
  const std::int64_t dim = looked_up(gather);
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
