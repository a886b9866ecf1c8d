// SPDX-License-Identifier: Apache-2.0
// Transposes of ops that move elements, and of sums.
#include <algorithm>
#include <numeric>

#include "src/transforms/transpose/site.h"
#include "src/transforms/utils/indexing.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Summed over these dims.
Instruction* sum_over(ir::Builder& b, Instruction* x, const Dims& dims) {
  if (dims.empty()) return x;
  ir::Computation* adder = ir::scalar_computation(b.module(), Opcode::add, x->shape.dtype);
  return b.reduce(x, b.zero(x->shape.dtype), dims, adder);
}

Dims all_dims(const Shape& shape) {
  Dims out(shape.dims.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

void transpose_broadcast(TransposeSite& s) {
  const Dims& to = s.get<ir::DimensionsAttrs>().dims;
  Dims summed;
  for (std::int64_t d = 0; d < s.op.shape.rank(); ++d) {
    if (std::find(to.begin(), to.end(), d) == to.end()) summed.push_back(d);
  }
  Instruction* total = sum_over(s.b, s.ct.array, summed);
  // The operand's dims may be in another order.
  Dims order(to.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return to[std::size_t(a)] < to[std::size_t(b)];
  });
  if (!std::is_sorted(to.begin(), to.end())) {
    Dims back(to.size());
    for (std::size_t k = 0; k < order.size(); ++k) back[std::size_t(order[k])] = std::int64_t(k);
    total = s.b.transpose(total, back);
  }
  s.give(0, total);
}

void transpose_reshape(TransposeSite& s) { s.give(0, s.b.reshape(s.ct.array, s.shape(0).dims)); }

void transpose_transpose(TransposeSite& s) {
  const Dims& dims = s.get<ir::DimensionsAttrs>().dims;
  Dims back(dims.size());
  for (std::size_t k = 0; k < dims.size(); ++k) back[std::size_t(dims[k])] = std::int64_t(k);
  s.give(0, s.b.transpose(s.ct.array, back));
}

void transpose_reverse(TransposeSite& s) {
  s.give(0, s.b.reverse(s.ct.array, s.get<ir::DimensionsAttrs>().dims));
}

void transpose_concatenate(TransposeSite& s) {
  const auto dim = std::size_t(s.get<ir::DimensionsAttrs>().dims[0]);
  std::int64_t at = 0;
  for (std::size_t k = 0; k < s.op.operands().size(); ++k) {
    const std::int64_t size = s.shape(k).dims[dim];
    if (s.is_linear(k)) {
      Dims starts(s.op.shape.dims.size(), 0), limits = s.op.shape.dims;
      starts[dim] = at;
      limits[dim] = at + size;
      s.give(k, s.b.slice(s.ct.array, starts, limits));
    }
    at += size;
  }
}

void transpose_slice(TransposeSite& s) {
  const auto& a = s.get<ir::SliceAttrs>();
  std::vector<ir::PadDim> pad;
  for (std::size_t d = 0; d < a.starts.size(); ++d) {
    const std::int64_t stride = a.strides.empty() ? 1 : a.strides[d], n = s.op.shape.dims[d];
    const std::int64_t end = n == 0 ? a.starts[d] : a.starts[d] + (n - 1) * stride + 1;
    pad.push_back({a.starts[d], s.shape(0).dims[d] - end, stride - 1});
  }
  s.give(0, s.b.pad(s.ct.array, s.b.zero(s.op.shape.dtype), pad));
}

void transpose_pad(TransposeSite& s) {
  const auto& dims = s.get<ir::PadAttrs>().dims;
  const auto undone = [&](Instruction* x) {
    // Negative padding back, then the elements between which some were put.
    std::vector<ir::PadDim> back;
    Dims starts, limits, strides;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      back.push_back({-dims[d].low, -dims[d].high, 0});
      const std::int64_t n = s.shape(0).dims[d];
      starts.push_back(0);
      strides.push_back(dims[d].interior + 1);
      limits.push_back(n == 0 ? 0 : (n - 1) * strides[d] + 1);
    }
    Instruction* inner = s.b.pad(x, s.b.zero(x->shape.dtype), back);
    return s.b.slice(inner, starts, limits, strides);
  };
  Instruction* of_operand = undone(s.ct.array);
  s.give(0, of_operand);
  if (!s.is_linear(1)) return;
  Instruction* total = sum_over(s.b, s.ct.array, all_dims(s.op.shape));
  Instruction* inside = sum_over(s.b, of_operand, all_dims(of_operand->shape));
  s.give(1, s.b.binary(Opcode::subtract, total, inside));
}

void transpose_reduce(TransposeSite& s) {
  const Dims& summed = s.get<ir::DimensionsAttrs>().dims;
  const std::size_t count = s.op.operands().size() / 2;
  if (count != 1) s.refuse("only sums of one array are linear");
  Dims kept;
  for (std::int64_t d = 0; d < s.shape(0).rank(); ++d) {
    if (std::find(summed.begin(), summed.end(), d) == summed.end()) kept.push_back(d);
  }
  if (s.is_linear(0)) s.give(0, s.b.broadcast(s.ct.array, s.shape(0).dims, kept));
  if (s.is_linear(1)) s.give(1, sum_over(s.b, s.ct.array, all_dims(s.op.shape)));
}

// ------------------------------------------------------------------ slices at places of their own

namespace {

std::vector<Instruction*> operands_from(const TransposeSite& s, std::size_t first) {
  std::vector<Instruction*> out;
  for (std::size_t k = first; k < s.op.operands().size(); ++k) out.push_back(s.operand(k));
  return out;
}

}  // namespace

void transpose_dynamic_slice(TransposeSite& s) {
  Instruction* nothing = zeros(s.b, s.shape(0));
  s.give(0, s.b.dynamic_update_slice(nothing, s.ct.array, operands_from(s, 1)));
}

void transpose_dynamic_update_slice(TransposeSite& s) {
  const std::vector<Instruction*> starts = operands_from(s, 2);
  if (s.is_linear(0)) {
    s.give(0, s.b.dynamic_update_slice(s.ct.array, zeros(s.b, s.shape(1)), starts));
  }
  if (s.is_linear(1)) s.give(1, s.b.dynamic_slice(s.ct.array, starts, s.shape(1).dims));
}

void transpose_gather(TransposeSite& s) {
  const auto& a = s.get<ir::GatherAttrs>();
  ir::ScatterAttrs back;
  back.update_window_dims = a.offset_dims;
  back.inserted_window_dims = a.collapsed_slice_dims;
  back.scatter_dims_to_operand_dims = a.start_index_map;
  back.input_batching_dims = a.operand_batching_dims;
  back.scatter_indices_batching_dims = a.start_indices_batching_dims;
  back.index_vector_dim = a.index_vector_dim;
  back.indices_are_sorted = a.indices_are_sorted;
  ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.op.shape.dtype);
  // A gather clamps where a scatter drops.
  Instruction* indices = clamped_starts(s.b, s.operand(1), a, s.shape(0));
  s.give(0,
         s.b.emit(Opcode::scatter, {zeros(s.b, s.shape(0)), indices, s.ct.array}, back, {adder}));
}

void transpose_scatter(TransposeSite& s) {
  if (s.op.operands().size() != 3) s.refuse("scatters of several arrays have no transpose");
  const auto& a = s.get<ir::ScatterAttrs>();
  const std::optional<Opcode> combiner = ir::as_binary_reducer(*s.op.called(0));
  if (combiner != Opcode::add) s.refuse("only scatters that add have a transpose");
  s.give(0, s.ct);
  if (!s.is_linear(2)) return;
  ir::GatherAttrs back;
  back.offset_dims = a.update_window_dims;
  back.collapsed_slice_dims = a.inserted_window_dims;
  back.start_index_map = a.scatter_dims_to_operand_dims;
  back.operand_batching_dims = a.input_batching_dims;
  back.start_indices_batching_dims = a.scatter_indices_batching_dims;
  back.index_vector_dim = a.index_vector_dim;
  back.indices_are_sorted = a.indices_are_sorted;
  back.slice_sizes = ir::indexed_dims(a, s.shape(0), s.shape(2)).sizes;
  Instruction* indices = s.operand(1);
  Instruction* got = s.b.emit(Opcode::gather, {s.ct.array, indices}, back);
  // An update that lies outside is dropped; the gather would have moved it inside.
  if (Instruction* inside = updates_inside(s.b, indices, a, s.shape(0), s.shape(2))) {
    got = s.b.select(inside, got, zeros(s.b, got->shape));
  }
  s.give(2, got);
}

}  // namespace tessera::transforms
