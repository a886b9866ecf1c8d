// SPDX-License-Identifier: Apache-2.0
// What rules of gathers and scatters share: places inside and outside of an array.
#include "src/transforms/utils/indexing.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "src/base/arrays/literal_util.h"

namespace tessera::transforms {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

std::int64_t greatest(DType dtype) {
  std::int64_t out = std::numeric_limits<std::int64_t>::max();
  dispatch_dtype(dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<S>) {
      const auto max = std::uint64_t(std::numeric_limits<S>::max());
      out = std::int64_t(std::min<std::uint64_t>(max, std::uint64_t(out)));
    }
  });
  return out;
}

/// Per component of an index vector the last place at which a window starts inside, like `starts`.
Instruction* last_starts(ir::Builder& b, const Shape& starts, std::int64_t vector_dim,
                         const Dims& index_map, const Dims& window, const Shape& operand) {
  std::vector<std::int64_t> last;
  for (const std::int64_t d : index_map) {
    const std::int64_t bound = operand.dim(d) - window[std::size_t(d)];
    last.push_back(std::clamp<std::int64_t>(bound, 0, greatest(starts.dtype)));
  }
  if (std::all_of(last.begin(), last.end(), [&](std::int64_t v) { return v == last[0]; })) {
    return b.splat(b.scalar(starts.dtype, last.empty() ? 0.0 : double(last[0])), starts.dims);
  }
  Instruction* bounds = b.constant(make_literal(starts.dtype, {std::int64_t(last.size())}, last));
  return b.broadcast(bounds, starts.dims, {vector_dim});
}

}  // namespace

Instruction* clamped_starts(ir::Builder& b, Instruction* starts, const ir::GatherAttrs& a,
                            const Shape& operand) {
  Instruction* last =
      last_starts(b, starts->shape, a.index_vector_dim, a.start_index_map, a.slice_sizes, operand);
  Instruction* first = b.splat(b.zero(starts->shape.dtype), starts->shape.dims);
  return b.emit(Opcode::clamp, {first, starts, last});
}

Instruction* updates_inside(ir::Builder& b, Instruction* starts, const ir::ScatterAttrs& a,
                            const Shape& operand, const Shape& updates) {
  const ir::IndexedDims dims = ir::indexed_dims(a, operand, updates);
  Instruction* last =
      last_starts(b, starts->shape, dims.vector_dim, dims.mapped, dims.sizes, operand);
  Instruction* inside = b.compare(Direction::le, starts, last);
  if (!is_unsigned_integer(starts->shape.dtype)) {
    Instruction* first = b.splat(b.zero(starts->shape.dtype), starts->shape.dims);
    inside = b.binary(Opcode::and_, inside, b.compare(Direction::ge, starts, first));
  }
  if (a.index_vector_dim < starts->shape.rank()) {
    ir::Computation* both = ir::scalar_computation(b.module(), Opcode::and_, DType::pred);
    inside = b.reduce(inside, b.scalar(DType::pred, 1), {a.index_vector_dim}, both);
  }
  return b.broadcast(inside, updates.dims, dims.batch);
}

Instruction* take_along(ir::Builder& b, Instruction* x, Instruction* places, std::int64_t dim) {
  return b.emit(Opcode::gather, {x, places}, ir::gather_along(x->shape.rank(), dim));
}

}  // namespace tessera::transforms
