// SPDX-License-Identifier: Apache-2.0
// The place of an element of a gather in its array is a sum: of the clamped numbers of an index
// vector, and of the element's own coordinates in the window and the batch, each by a stride.
#include "src/passes/indexed/flatten_gathers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/affine_numbers.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/patterns.h"
#include "src/passes/indexed/drop_invariant_dims.h"
#include "src/passes/indexed/index_components.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Longer runs are copied as a whole.
constexpr std::int64_t kLongRun = 64;

class Flattener {
 public:
  Flattener(const Instruction& gather, ir::Builder& builder)
      : gather_(gather),
        array_(gather.operand(0)->shape),
        b_(builder),
        dims_(ir::indexed_dims(gather)),
        strides_(row_major_strides(array_.dims)) {}

  Instruction* run() {
    const std::int64_t count = array_.element_count();
    if (gather_.shape.element_count() == 0 || !gather_.control_predecessors().empty()) {
      return nullptr;
    }
    if (element_count(dims_.batch_sizes) == 1) return sliced();
    // Pairs of numbers are found by twice the index.
    if (count > std::numeric_limits<std::int32_t>::max() / 2) return nullptr;
    if (is_flat()) return nullptr;
    if (Instruction* counted = counted_places()) return found_at(counted);
    if (copies_runs()) return rows();
    Instruction* at = first_of_windows(1);
    if (at != nullptr && !dims_.window.empty()) {
      at = b_.broadcast(at, gather_.shape.dims, dims_.batch);
    }
    for (std::size_t k = 0; k < dims_.window.size(); ++k) {
      const auto d = std::size_t(dims_.window[k]);
      if (dims_.sizes[d] != 1) add_to(b_, &at, coordinate(dims_.window_of_other[k], strides_[d]));
    }
    for (std::size_t k = 0; k < dims_.batching.size(); ++k) {
      add_to(b_, &at,
             coordinate(dims_.batch[std::size_t(dims_.batching[k])],
                        strides_[std::size_t(dims_.array_batching[k])]));
    }
    if (at == nullptr) at = b_.splat(b_.zero(DType::s32), gather_.shape.dims);
    return found_at(at);
  }

 private:
  /// The elements of the array at these places.
  Instruction* found_at(Instruction* places) {
    ir::GatherAttrs flat;
    flat.collapsed_slice_dims = flat.start_index_map = {0};
    flat.slice_sizes = {1};
    flat.index_vector_dim = gather_.shape.rank();
    Instruction* array = gather_.operand(0);
    if (array_.rank() != 1) array = b_.reshape(array, {array_.element_count()});
    return b_.emit(Opcode::gather, {array, places}, flat);
  }

  /// Of indices that the program counts: loops read by such places as they read arrays. Null: they
  /// are others.
  Instruction* counted_places() {
    // Loops find no elements of small types by an index.
    if (byte_size(array_.dtype) == 0 || (is_floating(array_.dtype) && byte_size(array_.dtype) == 1))
      return nullptr;
    std::int64_t base = 0;
    Dims steps(gather_.shape.dims.size(), 0);
    for (std::size_t k = 0; k < dims_.mapped.size(); ++k) {
      const auto d = std::size_t(dims_.mapped[k]);
      const auto n = ir::affine_component(*gather_.operand(1), dims_.vector_dim, std::int64_t(k));
      if (!n || n->least < 0 || n->greatest > array_.dims[d] - dims_.sizes[d]) return nullptr;
      base += n->base * strides_[d];
      for (std::size_t p = 0; p < dims_.batch.size(); ++p) {
        steps[std::size_t(dims_.batch[p])] += n->strides[p] * strides_[d];
      }
    }
    for (std::size_t k = 0; k < dims_.window.size(); ++k) {
      steps[std::size_t(dims_.window_of_other[k])] += strides_[std::size_t(dims_.window[k])];
    }
    for (std::size_t k = 0; k < dims_.batching.size(); ++k) {
      steps[std::size_t(dims_.batch[std::size_t(dims_.batching[k])])] +=
          strides_[std::size_t(dims_.array_batching[k])];
    }
    Instruction* at = b_.splat(b_.scalar(DType::s32, double(base)), gather_.shape.dims);
    for (std::size_t d = 0; d < steps.size(); ++d) {
      if (steps[d] == 0 || gather_.shape.dims[d] == 1) continue;
      Instruction* more = coordinate(std::int64_t(d), steps[d]);
      at = base == 0 && at->is(Opcode::broadcast) ? more : b_.binary(Opcode::add, at, more);
    }
    return at;
  }

  /// Rows that are found by several numbers are found by one.
  Instruction* rows() {
    if (!dims_.windows_are_last()) return nullptr;
    std::int64_t outer = array_.rank();
    while (outer > 0 && dims_.sizes[std::size_t(outer - 1)] == array_.dim(outer - 1)) --outer;
    for (std::int64_t d = 0; d < outer; ++d) {
      if (dims_.sizes[std::size_t(d)] != 1) return nullptr;
    }
    if (outer == 0 || (outer == 1 && dims_.batching.empty())) return nullptr;
    const std::int64_t row = element_count({array_.dims.begin() + outer, array_.dims.end()});
    Instruction* at = first_of_windows(row);
    add_batching(b_, dims_, strides_, row, &at);
    if (at == nullptr) return nullptr;
    ir::GatherAttrs flat;
    flat.collapsed_slice_dims = flat.start_index_map = {0};
    flat.slice_sizes = {1, row};
    flat.index_vector_dim = std::int64_t(dims_.batch.size());
    flat.offset_dims = {flat.index_vector_dim};
    Instruction* rows = b_.reshape(gather_.operand(0), {array_.element_count() / row, row});
    return b_.reshape(b_.emit(Opcode::gather, {rows, at}, flat), gather_.shape.dims);
  }

  /// Where windows start, in so many elements; null: all at the first one.
  Instruction* first_of_windows(std::int64_t unit) {
    // By the dims of the batch along which they vary.
    std::map<Dims, Instruction*> sums;
    for (std::size_t k = 0; k < dims_.mapped.size(); ++k) {
      const std::int64_t d = dims_.mapped[k];
      const std::int64_t last = array_.dim(d) - dims_.sizes[std::size_t(d)];
      if (last == 0) continue;
      Dims kept;
      Instruction* first = inside_start(b_, number(k, &kept), last);
      add_to(b_, &sums[kept], times(b_, first, strides_[std::size_t(d)] / unit));
    }
    Instruction* at = nullptr;
    for (const auto& [kept, sum] : sums) {
      const bool all = kept.size() == dims_.batch_sizes.size();
      add_to(b_, &at, all ? sum : b_.broadcast(sum, dims_.batch_sizes, kept));
    }
    return at;
  }

  bool is_flat() const {
    const Shape& indices = gather_.operand(1)->shape;
    return array_.rank() == 1 && dims_.vector_dim == indices.rank() &&
           indices.dtype == DType::s32 && dims_.window.empty() && dims_.batching.empty();
  }

  /// What each index vector finds is one run in both arrays, or is made of long ones.
  bool copies_runs() const {
    const Dims& sizes = dims_.sizes;
    // Short runs are found together, as vectors.
    constexpr std::int64_t kShortRun = 4;
    if (element_count(sizes) <= kShortRun) return false;
    if (dims_.window.empty() || dims_.window_of_other.back() != gather_.shape.rank() - 1) {
      return false;
    }
    std::int64_t run = 1, all = 1;
    bool whole = true;
    for (std::int64_t d = array_.rank() - 1; d >= 0; --d) {
      const std::int64_t size = sizes[std::size_t(d)];
      all *= size;
      if (!whole) continue;
      run *= size;
      whole = size == array_.dim(d);
    }
    return (dims_.windows_are_last() && run == all) ||
           run * std::int64_t(byte_size(array_.dtype)) >= kLongRun;
  }

  /// Of each index vector, an array over the batch.
  Instruction* number(std::size_t k) {
    return index_component(b_, gather_.operand(1), dims_, std::int64_t(k));
  }

  /// The same along some dims of the batch, if it is the same along others, where that is much less
  /// to compute: places to sample an image at don't depend on its features.
  Instruction* number(std::size_t k, Dims* kept) {
    constexpr std::int64_t kMuchLess = 4, kMany = 4096;
    Instruction* all = number(k);
    Dims dims;
    for (std::int64_t d = 0; d < all->shape.rank(); ++d) dims.push_back(d);
    *kept = dims;
    if (all->shape.element_count() < kMany) return all;
    std::int64_t count = all->shape.element_count();
    Instruction* out = all;
    for (const std::int64_t d : dims) {
      Dims fewer = *kept;
      std::erase(fewer, d);
      Instruction* part =
          all->shape.dim(d) == 1 ? nullptr : invariant_dims_.dropped(b_, all, fewer);
      if (part == nullptr) continue;
      *kept = std::move(fewer);
      count /= all->shape.dim(d);
      out = part;
    }
    if (count * kMuchLess <= all->shape.element_count()) return out;
    *kept = std::move(dims);
    return all;
  }

  Instruction* coordinate(std::int64_t dim, std::int64_t stride) {
    return times(b_, b_.iota(Shape(DType::s32, gather_.shape.dims), dim), stride);
  }

  /// The one window.
  Instruction* sliced() {
    const DType t = gather_.operand(1)->shape.dtype;
    std::vector<Instruction*> starts(std::size_t(array_.rank()), nullptr);
    for (std::size_t k = 0; k < dims_.mapped.size(); ++k) {
      starts[std::size_t(dims_.mapped[k])] = b_.reshape(number(k), {});
    }
    for (Instruction*& s : starts) {
      if (s == nullptr) s = b_.zero(t);
    }
    if (starts.empty()) return b_.reshape(gather_.operand(0), gather_.shape.dims);
    return b_.reshape(b_.dynamic_slice(gather_.operand(0), std::move(starts), dims_.sizes),
                      gather_.shape.dims);
  }

  const Instruction& gather_;
  const Shape& array_;
  ir::Builder& b_;
  const ir::IndexedDims dims_;
  const Dims strides_;
  InvariantDims invariant_dims_;
};

Instruction* flattened(const Instruction& gather, ir::Builder& builder) {
  return Flattener(gather, builder).run();
}

/// Short windows of a gather that are only read transposed, so that their elements lie apart: where
/// they are wanted, they are found there. Biases of attention are such, numbers of heads by place.
Instruction* turned(const Instruction& transpose, ir::Builder& b) {
  constexpr std::int64_t kShortWindow = 64;
  const Instruction& gather = *transpose.operand(0);
  if (!gather.is(Opcode::gather) || gather.use_count() != 1 ||
      !gather.control_predecessors().empty() || !transpose.control_predecessors().empty()) {
    return nullptr;
  }
  ir::GatherAttrs attrs = gather.get<ir::GatherAttrs>();
  const Dims& perm = transpose.get<ir::DimensionsAttrs>().dims;
  if (attrs.offset_dims.empty() || element_count(attrs.slice_sizes) > kShortWindow ||
      contains(attrs.offset_dims, perm.back())) {
    return nullptr;
  }
  // Neither the window's dims nor the batch's change places with each other.
  std::int64_t last_of_window = -1, last_of_batch = -1;
  Dims now;
  for (std::int64_t d = 0; d < std::int64_t(perm.size()); ++d) {
    const bool window = contains(attrs.offset_dims, perm[std::size_t(d)]);
    std::int64_t& last = window ? last_of_window : last_of_batch;
    if (perm[std::size_t(d)] < last) return nullptr;
    last = perm[std::size_t(d)];
    if (window) now.push_back(d);
  }
  attrs.offset_dims = std::move(now);
  return b.emit(Opcode::gather, {gather.operand(0), gather.operand(1)}, attrs);
}

}  // namespace

std::size_t flatten_gathers(ir::Module* module) {
  // The first sees gathers as they were.
  static const auto& turn =
      ir::keep(ir::PatternSet("flatten-gathers").add(Opcode::transpose, turned));
  static const auto& flatten =
      ir::keep(ir::PatternSet("flatten-gathers").add(Opcode::gather, flattened));
  return ir::walk_and_apply_patterns(module, turn) + ir::walk_and_apply_patterns(module, flatten);
}

}  // namespace tessera::passes
