// SPDX-License-Identifier: Apache-2.0
// The place of a row is a sum: of the numbers of an index vector, and of its own coordinates in the
// batch, each by a stride. If one of the numbers is outside, so is the sum that takes its place.
#include "src/passes/indexed/flatten_scatters.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"
#include "src/passes/indexed/drop_invariant_dims.h"
#include "src/passes/indexed/index_components.h"

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
  for (std::size_t k = 0; k < dims.mapped.size(); ++k) {
    const auto d = std::size_t(dims.mapped[k]);
    Instruction* n = index_component(b, scatter.operand(1), dims, std::int64_t(k));
    if (Instruction* fits = is_inside(b, n, first[d])) {
      inside = inside == nullptr ? fits : b.binary(Opcode::and_, inside, fits);
    }
    add_to(b, &at, times(b, b.convert(n, DType::s32), strides[d]));
  }
  add_batching(b, dims, strides, 1, &at);
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

/// Rows that are put together by a transpose, to be added up, are taken from where they come from
/// if the array is the same in any order of its dims, one number throughout: there is a kernel for
/// such sums (segment_sums.h). Gradients of tables from which biases are taken are such.
Instruction* turned_rows(const Instruction& scatter, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const Shape& array = scatter.operand(0)->shape;
  const Instruction *same = scatter.operand(0), &updates = *scatter.operand(2);
  while (same->is(Opcode::reshape)) same = same->operand(0);
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const std::int64_t in_row = array.rank() - 1;
  if (!same->is(Opcode::broadcast) || !same->operand(0)->shape.is_scalar() ||
      !updates.is(Opcode::transpose) || in_row < 1 || row_dims(dims, array) != in_row ||
      dims.mapped != Dims{0} || !dims.batching.empty() || contains(dims.window, 0) ||
      dims.batch.size() < 2 || array.dtype != DType::f32 ||
      ir::as_binary_reducer(*scatter.called().front()) != Opcode::add) {
    return nullptr;
  }
  // Rows come first there, and all else is in the same order.
  const Dims& perm = updates.get<ir::DimensionsAttrs>().dims;
  for (std::int64_t d = 0, rank = updates.shape.rank(); d < rank; ++d) {
    if (perm[std::size_t(d)] != (d + in_row) % rank) return nullptr;
  }
  ir::ScatterAttrs attrs = scatter.get<ir::ScatterAttrs>();
  attrs.inserted_window_dims = attrs.scatter_dims_to_operand_dims = {in_row};
  Dims table(array.dims.begin() + 1, array.dims.end()), back = {in_row};
  table.push_back(array.dim(0));
  for (std::int64_t d = 0; d < in_row; ++d) {
    attrs.update_window_dims[std::size_t(d)] = d;
    back.push_back(d);
  }
  Instruction* out = b.emit(
      Opcode::scatter, {b.splat(same->operand(0), table), scatter.operand(1), updates.operand(0)},
      attrs, {scatter.called().front()});
  return b.transpose(out, back);
}

/// Whether a vector is 0, 1, 2, ...
bool counts_up(const Instruction* x) {
  while (x->is(Opcode::convert) || (x->is(Opcode::reshape) && x->operand(0)->shape.rank() == 1)) {
    x = x->operand(0);
  }
  if (x->is(Opcode::iota)) return x->shape.rank() == 1;
  if (!x->is(Opcode::constant) || x->get<ir::ConstantAttrs>().elided) return false;
  const Literal& numbers = x->get<ir::ConstantAttrs>().value;
  return dispatch_dtype(numbers.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      std::int64_t next = 0;
      const auto all = numbers.data<T>();
      return std::all_of(all.begin(), all.end(), [&](T n) { return std::int64_t(n) == next++; });
    }
    return false;
  });
}

/// Elements of whole rows, whose last numbers count up, are rows, as in sums by an index that
/// PyTorch expands to all elements.
Instruction* whole_rows(const Instruction& scatter, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const auto& s = scatter.get<ir::ScatterAttrs>();
  const Shape &array = scatter.operand(0)->shape, &updates = scatter.operand(2)->shape;
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const std::int64_t rank = array.rank(), batch = updates.rank();
  if (!s.update_window_dims.empty() || std::int64_t(dims.mapped.size()) != rank ||
      updates.element_count() == 0) {
    return nullptr;
  }
  InvariantDims invariant;
  const auto numbers_of = [&](std::int64_t d, const Dims& kept) {
    const auto k = std::find(dims.mapped.begin(), dims.mapped.end(), d) - dims.mapped.begin();
    return invariant.dropped(b, index_component(b, scatter.operand(1), dims, k), kept);
  };
  std::int64_t in_row = 0;
  while (in_row + 1 < std::min(rank, batch)) {
    const std::int64_t d = rank - 1 - in_row, along = batch - 1 - in_row;
    if (array.dim(d) != updates.dim(along)) break;
    const Instruction* numbers = numbers_of(d, {along});
    if (numbers == nullptr || !counts_up(numbers)) break;
    ++in_row;
  }
  if (in_row == 0) return nullptr;
  ir::ScatterAttrs rows;
  rows.indices_are_sorted = s.indices_are_sorted;
  rows.unique_indices = s.unique_indices;
  rows.index_vector_dim = batch - in_row;
  Dims kept, sizes;
  for (std::int64_t d = 0; d < batch - in_row; ++d) {
    kept.push_back(d);
    sizes.push_back(updates.dim(d));
  }
  for (std::int64_t d = batch - in_row; d < batch; ++d) rows.update_window_dims.push_back(d);
  sizes.push_back(1);
  std::vector<Instruction*> numbers;
  for (std::int64_t d = 0; d < rank - in_row; ++d) {
    Instruction* of_rows = numbers_of(d, kept);
    if (of_rows == nullptr) return nullptr;
    numbers.push_back(b.reshape(of_rows, sizes));
    rows.inserted_window_dims.push_back(d);
  }
  rows.scatter_dims_to_operand_dims = rows.inserted_window_dims;
  Instruction* indices =
      numbers.size() == 1 ? numbers[0] : b.concatenate(numbers, rows.index_vector_dim);
  return b.emit(Opcode::scatter, {scatter.operand(0), indices, scatter.operand(2)}, rows,
                {scatter.called().front()});
}

}  // namespace

std::size_t flatten_scatters(ir::Module* module) {
  // Rows with one index each, whoever made them, are turned.
  static const auto& patterns = ir::keep(ir::PatternSet("flatten-scatters")
                                             .add(Opcode::scatter, whole_rows, 3)
                                             .add(Opcode::scatter, turned_rows, 2)
                                             .add(Opcode::scatter, one_index_each));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
