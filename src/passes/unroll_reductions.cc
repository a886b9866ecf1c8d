// SPDX-License-Identifier: Apache-2.0
// Reductions of stacked arrays, as one sees in choices (the first condition that holds) and small
// sums: each array is combined with what the ones before it gave.
#include "src/passes/unroll_reductions.h"

#include <algorithm>
#include <vector>

#include "src/ir/rewrite/on_arrays.h"
#include "src/passes/replace_each.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// All are computed in one loop.
constexpr std::int64_t kMostArrays = 8;

/// One array after the other, each with that dim of one.
bool is_stack(const Instruction& i, std::int64_t dim) {
  return i.is(Opcode::concatenate) && i.get<ir::DimensionsAttrs>().dims.at(0) == dim &&
         i.operands().size() > 1 &&
         std::all_of(i.operands().begin(), i.operands().end(),
                     [dim](const Instruction* o) { return o->shape.dim(dim) == 1; });
}

/// Of an iota or a broadcast scalar, which need no memory.
bool is_made(const Instruction& i) {
  return i.is(Opcode::iota) || (i.is(Opcode::broadcast) && i.operand(0)->shape.is_scalar());
}

/// What stands at place k of the dim, without it.
Instruction* layer(ir::Builder& b, Instruction& of, std::int64_t dim, std::int64_t k,
                   const Dims& dims) {
  const DType t = of.shape.dtype;
  if (of.is(Opcode::concatenate)) return b.reshape(of.operand(std::size_t(k)), dims);
  if (of.is(Opcode::broadcast)) return b.splat(of.operand(0), dims);
  const std::int64_t along = of.get<ir::IotaAttrs>().dim;
  if (along == dim) return b.splat(b.scalar(t, double(k)), dims);
  return b.iota(Shape(t, dims), along > dim ? along - 1 : along);
}

Instruction* unrolled(const Instruction& reduce, ir::Builder& b) {
  const Dims& reduced = reduce.get<ir::DimensionsAttrs>().dims;
  if (reduced.size() != 1 || !reduce.control_predecessors().empty()) return nullptr;
  const std::size_t arrays = reduce.operands().size() / 2;
  const std::int64_t dim = reduced[0], count = reduce.operand(0)->shape.dim(dim);
  if (count > kMostArrays || ir::not_on_arrays(*reduce.called().front())) return nullptr;
  bool any = false;
  for (std::size_t k = 0; k < arrays; ++k) {
    const Instruction& o = *reduce.operand(k);
    const bool stack = is_stack(o, dim) && o.users().size() == 1;
    if (!stack && !is_made(o)) return nullptr;
    any = any || stack;
  }
  const std::vector<Shape> results = flatten(reduce.shape);
  for (std::size_t k = 0; k < arrays; ++k) {
    if (results.at(k).dtype != reduce.operand(k)->shape.dtype) return nullptr;
  }
  if (!any) return nullptr;
  const Dims& dims = results[0].dims;
  std::vector<Instruction*> so_far;
  for (std::size_t k = 0; k < arrays; ++k) {
    so_far.push_back(b.splat(reduce.operand(arrays + k), dims));
  }
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::size_t k = 0; k < arrays; ++k) {
      so_far.push_back(layer(b, *reduce.operand(k), dim, n, dims));
    }
    so_far = ir::on_arrays(b, *reduce.called().front(), so_far);
  }
  return reduce.shape.is_tuple ? b.tuple(so_far) : so_far[0];
}

}  // namespace

std::size_t unroll_reductions(ir::Module* module) {
  return replace_each(module, Opcode::reduce, unrolled);
}

}  // namespace tessera::passes
