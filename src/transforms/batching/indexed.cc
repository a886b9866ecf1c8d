// SPDX-License-Identifier: Apache-2.0
// Batches ops whose positions are values: gather, scatter, dynamic slices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/builder.h"
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

/// Adds a dim to the windows of a gather's result or a scatter's updates, as the k-th of
/// `window_dims` in order; returns where it stands. `rank`: of an entry.
std::int64_t add_window_dim(Dims* window_dims, std::int64_t k, std::int64_t rank) {
  const std::int64_t at =
      k < std::int64_t(window_dims->size()) ? (*window_dims)[std::size_t(k)] : rank;
  *window_dims = inserted(shifted(*window_dims, at), k, at);
  return at;
}

/// The same for the k-th of the other dims, those of the indices.
std::int64_t add_index_dim(Dims* window_dims, std::int64_t k, std::int64_t rank) {
  std::int64_t at = rank;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (contains(*window_dims, d)) continue;
    if (k-- == 0) {
      at = d;
      break;
    }
  }
  *window_dims = shifted(*window_dims, at);
  return at;
}

/// Dims of an array that pair up with dims of the indices.
void add_batching_pair(Dims* array_dims, Dims* index_dims, std::int64_t array_dim,
                       std::int64_t index_dim) {
  const auto at = std::lower_bound(array_dims->begin(), array_dims->end(), array_dim);
  index_dims->insert(index_dims->begin() + (at - array_dims->begin()), index_dim);
  array_dims->insert(at, array_dim);
}

/// What the batch does to the indices of a gather or scatter: which of their dims, the index
/// vector left out, it is.
std::int64_t shift_indices(Dims* batching_dims, std::int64_t* index_vector_dim,
                           std::int64_t batch) {
  const std::int64_t k = batch - (*index_vector_dim < batch ? 1 : 0);
  *batching_dims = shifted(*batching_dims, batch);
  *index_vector_dim = shifted(*index_vector_dim, batch);
  return k;
}

}  // namespace

Batched batch_gather(BatchSite& site) {
  auto a = site.op.get<ir::GatherAttrs>();
  const std::int64_t x = site.dim(0), indices = site.dim(1), rank = site.op.shape.rank();
  std::int64_t window = 0;  // slice dims in front of the batch
  if (site.batched(0)) {
    for (std::int64_t d = 0; d < x; ++d) {
      window += contains(a.collapsed_slice_dims, d) || contains(a.operand_batching_dims, d) ? 0 : 1;
    }
    a.collapsed_slice_dims = shifted(a.collapsed_slice_dims, x);
    a.start_index_map = shifted(a.start_index_map, x);
    a.operand_batching_dims = shifted(a.operand_batching_dims, x);
    const std::int64_t whole = site.size();
    a.slice_sizes =
        inserted(a.slice_sizes, x, site.batched(1) ? std::min<std::int64_t>(whole, 1) : whole);
  }
  std::int64_t to = 0;
  if (site.batched(1)) {
    const std::int64_t k =
        shift_indices(&a.start_indices_batching_dims, &a.index_vector_dim, indices);
    a.indices_are_sorted = false;
    if (site.batched(0)) {
      add_batching_pair(&a.operand_batching_dims, &a.start_indices_batching_dims, x, indices);
    }
    to = add_index_dim(&a.offset_dims, k, rank);
  } else {
    to = add_window_dim(&a.offset_dims, window, rank);
  }
  return site.emit({site.array(0), site.array(1)}, a, to);
}

Batched batch_scatter(BatchSite& site) {
  auto a = site.op.get<ir::ScatterAttrs>();
  const std::size_t n = site.operand_count() / 2;
  const std::int64_t dim = site.common_dim(0, n), indices = site.dim(n);
  const std::int64_t rank = site.entry_shape(n + 1).rank();
  std::int64_t window = 0;  // window dims in front of the batch
  for (std::int64_t d = 0; d < dim; ++d) {
    window += contains(a.inserted_window_dims, d) || contains(a.input_batching_dims, d) ? 0 : 1;
  }
  a.inserted_window_dims = shifted(a.inserted_window_dims, dim);
  a.scatter_dims_to_operand_dims = shifted(a.scatter_dims_to_operand_dims, dim);
  a.input_batching_dims = shifted(a.input_batching_dims, dim);
  std::int64_t of_updates = 0;
  if (site.batched(n)) {
    const std::int64_t k =
        shift_indices(&a.scatter_indices_batching_dims, &a.index_vector_dim, indices);
    a.indices_are_sorted = false;
    add_batching_pair(&a.input_batching_dims, &a.scatter_indices_batching_dims, dim, indices);
    of_updates = add_index_dim(&a.update_window_dims, k, rank);
  } else {
    of_updates = add_window_dim(&a.update_window_dims, window, rank);
  }
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < n; ++i) operands.push_back(site.at(i, dim));
  operands.push_back(site.array(n));
  for (std::size_t i = n + 1; i < site.operand_count(); ++i) {
    operands.push_back(site.at(i, of_updates));
  }
  return site.emit(std::move(operands), a, dim);
}

namespace {

/// The start positions of a dynamic slice, operands from `first` on, one per dim.
std::vector<Batched> start_positions(BatchSite& site, std::size_t first, std::int64_t rank) {
  std::vector<Batched> out;
  if (site.operand_count() != first + 1 || site.entry_shape(first).rank() == 0) {
    for (std::size_t i = first; i < site.operand_count(); ++i) out.push_back(site.operand(i));
    return out;
  }
  // All in one vector.
  const bool batched = site.batched(first);
  Instruction* all = batched ? site.at(first, 0) : site.array(first);
  for (std::int64_t d = 0; d < rank; ++d) {
    Batched one;
    one.dim = batched ? 0 : kNotBatched;
    one.array = batched
                    ? site.b.reshape(site.b.slice(all, {0, d}, {site.size(), d + 1}), {site.size()})
                    : site.b.reshape(site.b.slice(all, {d}, {d + 1}), {});
    out.push_back(one);
  }
  return out;
}

bool any_start_batched(const std::vector<Batched>& starts) {
  return std::any_of(starts.begin(), starts.end(), [](const Batched& s) { return s.batched(); });
}

/// The positions as scalars, and 0 along the batch.
std::vector<Instruction*> with_start_of_batch(BatchSite& site, const std::vector<Batched>& starts,
                                              std::int64_t dim) {
  std::vector<Instruction*> out;
  for (const Batched& s : starts) out.push_back(s.array);
  const DType type = out.empty() ? DType::s32 : out.front()->shape.dtype;
  out.insert(out.begin() + std::ptrdiff_t(dim), site.b.zero(type));
  return out;
}

/// A row of positions for each entry: those along `dims`.
Instruction* rows_of_starts(BatchSite& site, const std::vector<Batched>& starts, const Dims& dims) {
  std::vector<Instruction*> columns;
  for (std::int64_t d : dims) {
    columns.push_back(site.b.reshape(site.at(starts[std::size_t(d)], 0), {site.size(), 1}));
  }
  return columns.size() == 1 ? columns[0] : site.b.concatenate(columns, 1);
}

/// The dims along which a slice of these sizes may start elsewhere than at 0.
Dims movable_dims(const Dims& whole, const Dims& sizes) {
  Dims out;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (sizes[d] != whole[d]) out.push_back(std::int64_t(d));
  }
  return out;
}

}  // namespace

/// Entries that start at places of their own: a gather, which clamps positions alike.
Batched batch_dynamic_slice(BatchSite& site) {
  const Shape& entry = site.entry_shape(0);
  const Dims& sizes = site.op.get<ir::DynamicSliceAttrs>().sizes;
  const std::vector<Batched> starts = start_positions(site, 1, entry.rank());
  const std::int64_t dim = site.dim(0);
  if (!any_start_batched(starts)) {
    std::vector<Instruction*> operands = with_start_of_batch(site, starts, dim);
    operands.insert(operands.begin(), site.array(0));
    return site.emit(std::move(operands), ir::DynamicSliceAttrs{inserted(sizes, dim, site.size())},
                     dim);
  }
  const Dims moved = movable_dims(entry.dims, sizes);
  if (moved.empty()) return site.operand(0);
  ir::GatherAttrs a;
  a.index_vector_dim = 1;
  a.slice_sizes = sizes;
  a.start_index_map = moved;
  a.offset_dims = ir::consecutive_dims(1, 1 + std::int64_t(sizes.size()));
  if (site.batched(0)) {
    a.slice_sizes = inserted(sizes, dim, std::min<std::int64_t>(site.size(), 1));
    a.start_index_map = shifted(moved, dim);
    a.operand_batching_dims = {dim};
    a.start_indices_batching_dims = {0};
  }
  Batched out;
  out.array =
      site.b.emit(ir::Opcode::gather, {site.array(0), rows_of_starts(site, starts, moved)}, a);
  out.dim = 0;
  return out;
}

namespace {

/// Positions that a scatter doesn't drop: a dynamic update moves what would stick out.
Batched clamped_start(BatchSite& site, const Batched& start, std::int64_t greatest) {
  const DType type = start.array->shape.dtype;
  const std::int64_t limit = dispatch_dtype(type, [](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      constexpr T most = std::numeric_limits<T>::max();
      return sizeof(T) == 8 ? std::numeric_limits<std::int64_t>::max() : std::int64_t(most);
    }
    return 0;
  });
  Batched out = start;
  ir::Builder& b = site.b;
  out.array =
      b.emit(ir::Opcode::clamp, {b.constant(Literal::scalar(type, 0)), start.array,
                                 b.constant(Literal::scalar(type, std::min(greatest, limit)))});
  return out;
}

/// (a, b) -> b
ir::Computation* second_of_two(ir::Module* module, DType type) {
  const std::string name = "second_of_two_" + std::string(tessera::name(type));
  for (const auto& c : module->computations()) {
    if (c->name() == name && c->parameters().size() == 2 && c->root() == c->parameter(1) &&
        c->root()->shape == Shape(type, {})) {
      return c.get();
    }
  }
  ir::Builder b(module->add_computation(name));
  b.parameter(0, Shape(type, {}), "a");
  b.computation()->set_root(b.parameter(1, Shape(type, {}), "b"));
  return b.computation();
}

}  // namespace

/// Entries that are updated at places of their own: a scatter of clamped positions.
Batched batch_dynamic_update_slice(BatchSite& site) {
  const Shape &entry = site.entry_shape(0), &update = site.entry_shape(1);
  std::vector<Batched> starts = start_positions(site, 2, entry.rank());
  const Dims moved = movable_dims(entry.dims, update.dims);
  if (moved.empty()) return site.operand(1);
  if (!any_start_batched(starts)) {
    const std::int64_t dim = site.common_dim(0, 2);
    std::vector<Instruction*> operands = with_start_of_batch(site, starts, dim);
    operands.insert(operands.begin(), {site.at(0, dim), site.at(1, dim)});
    return site.emit(std::move(operands), dim);
  }
  for (std::int64_t d : moved) {
    const auto k = std::size_t(d);
    starts[k] = clamped_start(site, starts[k], entry.dims[k] - update.dims[k]);
  }
  const std::int64_t dim = site.batched(0) ? site.dim(0) : 0;
  ir::ScatterAttrs a;
  a.index_vector_dim = 1;
  a.update_window_dims = ir::consecutive_dims(1, 1 + std::int64_t(update.dims.size()));
  a.scatter_dims_to_operand_dims = shifted(moved, dim);
  a.input_batching_dims = {dim};
  a.scatter_indices_batching_dims = {0};
  a.unique_indices = true;
  Batched out;
  out.array = site.b.emit(ir::Opcode::scatter,
                          {site.at(0, dim), rows_of_starts(site, starts, moved), site.at(1, 0)}, a,
                          {second_of_two(site.b.module(), entry.dtype)});
  out.dim = dim;
  return out;
}

}  // namespace tessera::transforms::batching
