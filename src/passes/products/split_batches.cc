// SPDX-License-Identifier: Apache-2.0
// Takes the reshapes of batches from a dot's operands to its result.
#include "src/passes/products/split_batches.h"

#include <algorithm>
#include <utility>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// The dims that a reshape merges to the first one, of which all others stay; none: it doesn't.
Dims merged_first(const Instruction& x) {
  if (!x.is(Opcode::reshape) || !x.control_predecessors().empty()) return {};
  const Dims &from = x.operand(0)->shape.dims, &to = x.shape.dims;
  if (from.size() <= to.size()) return {};
  const auto others = std::ptrdiff_t(to.size()) - 1;
  if (!std::equal(to.end() - others, to.end(), from.end() - others)) return {};
  Dims merged(from.begin(), from.end() - others);
  return element_count(merged) == to[0] ? merged : Dims();
}

/// An operand of a dot, with its batch's dim as it was before it was merged.
Instruction* split_operand(Instruction* x, const Dims& dims, Dims* batch, Dims* contracting,
                           ir::Builder& b) {
  const std::int64_t at = (*batch)[0], more = std::int64_t(dims.size()) - 1;
  for (std::int64_t d = 1; d <= more; ++d) batch->push_back(at + d);
  for (std::int64_t& d : *contracting) d += d > at ? more : 0;
  Dims now = x->shape.dims;
  now.erase(now.begin() + std::ptrdiff_t(at));
  now.insert(now.begin() + std::ptrdiff_t(at), dims.begin(), dims.end());
  Instruction* const from = x->is(Opcode::reshape) ? x->operand(0) : x;
  return from->shape.dims == now ? from : b.reshape(from, std::move(now));
}

Instruction* with_split_batch(const Instruction& i, ir::Builder& b) {
  ir::DotAttrs a = i.get<ir::DotAttrs>();
  if (a.lhs_batch.size() != 1 || !i.control_predecessors().empty()) return nullptr;
  Dims dims = a.lhs_batch[0] == 0 ? merged_first(*i.operand(0)) : Dims();
  const Dims of_second = a.rhs_batch[0] == 0 ? merged_first(*i.operand(1)) : Dims();
  // Of several, the fewer: more are those of a broadcast, as to the queries of a group.
  if (dims.empty() || (!of_second.empty() && of_second.size() < dims.size())) {
    dims = of_second;
  } else if (of_second.size() == dims.size() && of_second != dims) {
    return nullptr;
  }
  if (dims.empty()) return nullptr;
  Instruction* x = split_operand(i.operand(0), dims, &a.lhs_batch, &a.lhs_contracting, b);
  Instruction* y = split_operand(i.operand(1), dims, &a.rhs_batch, &a.rhs_contracting, b);
  Shape shape(i.shape.dtype, dims);
  shape.dims.insert(shape.dims.end(), i.shape.dims.begin() + 1, i.shape.dims.end());
  Instruction* dot = b.emit_shaped(Opcode::dot, shape, {x, y}, std::move(a));
  return b.reshape(dot, i.shape.dims);
}

}  // namespace

std::size_t split_batches(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("split-batches").add(Opcode::dot, with_split_batch));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
