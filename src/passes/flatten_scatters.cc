// SPDX-License-Identifier: Apache-2.0
// The place of a row is a sum: of the numbers of an index vector, and of its own coordinates in the
// batch, each by a stride. If one of the numbers is outside, so is the sum that takes its place.
#include "src/passes/flatten_scatters.h"

#include <limits>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"
#include "src/passes/index_numbers.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// How many of the array's dims come last, whole in each window; -1 if windows aren't such rows.
std::int64_t row_dims(const ir::IndexedDims& dims, const Shape& array) {
  if (!dims.windows_are_last()) return -1;
  std::int64_t rows = 0;
  bool in_row = true;
  for (std::int64_t d = array.rank() - 1; d >= 0; --d) {
    const std::int64_t size = dims.sizes[std::size_t(d)];
    in_row =
        in_row && contains(dims.window, d) && size == array.dim(d) && !contains(dims.mapped, d);
    if (in_row) {
      ++rows;
    } else if (size != 1) {
      return -1;
    }
  }
  return rows;
}

Instruction* one_index_each(const Instruction& scatter, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const auto& s = scatter.get<ir::ScatterAttrs>();
  const Shape &array = scatter.operand(0)->shape, &updates = scatter.operand(2)->shape;
  if (array.element_count() == 0 || updates.element_count() == 0) return nullptr;
  // These have one index each as they are.
  if (s.scatter_dims_to_operand_dims == Dims{0} && s.input_batching_dims.empty()) return nullptr;
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const std::int64_t in_row = row_dims(dims, array);
  if (in_row < 0 || in_row == array.rank()) return nullptr;
  const std::int64_t outer = array.rank() - in_row;
  const Dims first(array.dims.begin(), array.dims.begin() + outer);
  const std::int64_t count = element_count(first);
  if (count > std::numeric_limits<std::int32_t>::max() / 2) return nullptr;
  const Dims strides = row_major_strides(first);
  const Dims& batch = dims.batch_sizes;
  Instruction *at = nullptr, *inside = nullptr;
  const auto add = [&](Instruction* more) {
    at = at == nullptr ? more : b.binary(Opcode::add, at, more);
  };
  for (std::size_t k = 0; k < dims.mapped.size(); ++k) {
    const auto d = std::size_t(dims.mapped[k]);
    Instruction* n = index_number(b, scatter.operand(1), dims, std::int64_t(k));
    if (Instruction* fits = is_inside(b, n, first[d])) {
      inside = inside == nullptr ? fits : b.binary(Opcode::and_, inside, fits);
    }
    add(times(b, b.convert(n, DType::s32), strides[d]));
  }
  for (std::size_t k = 0; k < dims.batching.size(); ++k) {
    add(times(b, b.iota(Shape(DType::s32, batch), dims.batching[k]),
              strides[std::size_t(dims.array_batching[k])]));
  }
  if (at == nullptr) at = b.splat(b.zero(DType::s32), batch);
  if (inside != nullptr) {
    at = b.select(inside, at, b.splat(b.scalar(DType::s32, double(count)), batch));
  }
  Dims rows = {count}, parts = batch;
  rows.insert(rows.end(), array.dims.begin() + outer, array.dims.end());
  parts.insert(parts.end(), array.dims.begin() + outer, array.dims.end());
  ir::ScatterAttrs flat;
  flat.indices_are_sorted = s.indices_are_sorted;
  flat.unique_indices = s.unique_indices;
  flat.inserted_window_dims = flat.scatter_dims_to_operand_dims = {0};
  flat.index_vector_dim = std::int64_t(batch.size());
  for (std::int64_t k = 0; k < in_row; ++k) {
    flat.update_window_dims.push_back(std::int64_t(batch.size()) + k);
  }
  Instruction* out =
      b.emit(Opcode::scatter,
             {b.reshape(scatter.operand(0), rows), at, b.reshape(scatter.operand(2), parts)}, flat,
             {scatter.called().front()});
  return b.reshape(out, scatter.shape.dims);
}

/// Short rows that are added up to zeros, as they are without the transpose that makes them of
/// whole arrays: gradients of tables of biases, from which arrays are taken by place.
Instruction* without_transpose(const Instruction& scatter, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const auto& s = scatter.get<ir::ScatterAttrs>();
  const Instruction& zeros = *scatter.operand(0);
  const Instruction& updates = *scatter.operand(2);
  const bool fits = zeros.is(Opcode::broadcast) && zeros.operand(0)->shape.is_scalar() &&
                    zeros.shape.rank() == 2 && updates.is(Opcode::transpose) &&
                    updates.get<ir::DimensionsAttrs>().dims == Dims{1, 2, 0} &&
                    s.update_window_dims == Dims{2} && s.inserted_window_dims == Dims{0} &&
                    s.scatter_dims_to_operand_dims == Dims{0} && s.input_batching_dims.empty() &&
                    updates.shape.dim(2) == zeros.shape.dim(1);
  if (!fits) return nullptr;
  ir::ScatterAttrs attrs = s;
  attrs.update_window_dims = {0};
  attrs.inserted_window_dims = attrs.scatter_dims_to_operand_dims = {1};
  Instruction* turned = b.splat(zeros.operand(0), {zeros.shape.dim(1), zeros.shape.dim(0)});
  Instruction* out = b.emit(Opcode::scatter, {turned, scatter.operand(1), updates.operand(0)},
                            attrs, {scatter.called().front()});
  return b.transpose(out, {1, 0});
}

}  // namespace

std::size_t flatten_scatters(ir::Module* module) {
  // The second takes what the first made.
  static const auto& patterns = ir::keep(ir::PatternSet("flatten-scatters")
                                             .add(Opcode::scatter, without_transpose, 2)
                                             .add(Opcode::scatter, one_index_each));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
