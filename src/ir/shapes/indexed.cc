// SPDX-License-Identifier: Apache-2.0
// Operations whose positions are values: dynamic slices, gather, scatter.
#include <algorithm>

#include "src/ir/shapes/inference_site.h"

#include "src/base/contains.h"

namespace tessera::ir::inference {
namespace {

void need_sorted(const Site& site, const Dims& dims, const char* what) {
  if (!std::is_sorted(dims.begin(), dims.end())) {
    site.shape_error(std::string(what) + "={" + join(dims) + "} must be in ascending order");
  }
}

// Operands [first, end) are the start positions: one integer scalar per dim, or one vector.
void check_starts(const Site& site, std::size_t first, std::int64_t rank) {
  std::size_t n = site.operands.size() - first;
  for (std::size_t i = first; i < site.operands.size(); ++i) {
    if (!is_integer(site.array(i).dtype)) {
      site.dtype_error("operand " + std::to_string(i) +
                       " is a start position and must be an integer, not " +
                       std::string(name(site.shape(i).dtype)));
    }
    site.same_dtype(first, i);
  }
  if (n == 1 && site.shape(first).dims == Dims{rank}) return;
  if (std::int64_t(n) != rank) {
    site.shape_error("needs one start position per dim (" + std::to_string(rank) + "), not " +
                     std::to_string(n));
  }
  for (std::size_t i = first; i < site.operands.size(); ++i) {
    if (!site.shape(i).is_scalar()) {
      site.shape_error("operand " + std::to_string(i) +
                       " is a start position and must be a scalar");
    }
  }
}

}  // namespace

Shape infer_dynamic_slice(const Site& site) {
  site.need_operands_at_least(1);
  const Shape& x = site.array(0);
  check_starts(site, 1, x.rank());
  const Dims& sizes = site.get<DynamicSliceAttrs>().sizes;
  if (std::int64_t(sizes.size()) != x.rank()) {
    site.shape_error("dynamic_slice_sizes={" + join(sizes) + "} must have " +
                     std::to_string(x.rank()) + " entries");
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.dims[i]) {
      site.shape_error("slice size " + std::to_string(sizes[i]) + " of dim " + std::to_string(i) +
                       " is not in [0, " + std::to_string(x.dims[i]) + "]");
    }
  }
  return Shape(x.dtype, sizes);
}

Shape infer_dynamic_update_slice(const Site& site) {
  site.need_operands_at_least(2);
  const Shape& x = site.array(0);
  const Shape& update = site.array(1);
  site.same_dtype(0, 1);
  bool fits = update.rank() == x.rank();
  for (std::int64_t d = 0; fits && d < x.rank(); ++d) fits = update.dim(d) <= x.dim(d);
  if (!fits) {
    site.shape_error("the update " + update.to_string() + " must have the rank of " +
                     x.to_string() + " and be no larger in any dim");
  }
  check_starts(site, 2, x.rank());
  return Shape(x.dtype, x.dims);
}

namespace {

// What gather and scatter share: the batch dims of the index array, the index vector left out.
Dims index_batch_dims(const Site& site, std::size_t operand, std::int64_t index_vector_dim,
                      std::size_t index_size) {
  const Shape& indices = site.array(operand);
  if (!is_integer(indices.dtype)) {
    site.dtype_error("operand " + std::to_string(operand) + " holds positions and must be integer");
  }
  if (index_vector_dim < 0 || index_vector_dim > indices.rank()) {
    site.shape_error("index_vector_dim=" + std::to_string(index_vector_dim) + " is not in [0, " +
                     std::to_string(indices.rank()) + "]");
  }
  std::int64_t vector = index_vector_dim == indices.rank() ? 1 : indices.dim(index_vector_dim);
  if (vector != std::int64_t(index_size)) {
    site.shape_error("an index vector has " + std::to_string(vector) + " entries and " +
                     std::to_string(index_size) + " operand dims are indexed");
  }
  Dims batch;
  for (std::int64_t d = 0; d < indices.rank(); ++d) {
    if (d != index_vector_dim) batch.push_back(indices.dim(d));
  }
  return batch;
}

void check_batching(const Site& site, const Shape& x, const Dims& operand_dims,
                    const Shape& indices, const Dims& index_dims, std::int64_t index_vector_dim) {
  site.check_dims(operand_dims, x.rank(), "operand batching dim");
  site.check_dims(index_dims, indices.rank(), "index batching dim");
  if (operand_dims.size() != index_dims.size()) {
    site.shape_error("operand and index batching dims {" + join(operand_dims) + "} and {" +
                     join(index_dims) + "} must pair up");
  }
  for (std::size_t i = 0; i < operand_dims.size(); ++i) {
    if (index_dims[i] == index_vector_dim) {
      site.shape_error("index batching dim " + std::to_string(index_dims[i]) +
                       " is the index vector dim");
    }
    if (x.dim(operand_dims[i]) != indices.dim(index_dims[i])) {
      site.shape_error("batching dims " + std::to_string(operand_dims[i]) + " (size " +
                       std::to_string(x.dim(operand_dims[i])) + ") and " +
                       std::to_string(index_dims[i]) + " (size " +
                       std::to_string(indices.dim(index_dims[i])) + ") must be equal");
    }
  }
}

void check_disjoint(const Site& site, const Dims& a, const Dims& b, const char* what) {
  for (std::int64_t d : a) {
    if (contains(b, d)) site.shape_error("dim " + std::to_string(d) + " is both " + what);
  }
}

}  // namespace

Shape infer_gather(const Site& site) {
  const Shape& x = site.array(0);
  const auto& a = site.get<GatherAttrs>();
  Dims batch = index_batch_dims(site, 1, a.index_vector_dim, a.start_index_map.size());
  std::int64_t rank = x.rank();
  site.check_dims(a.start_index_map, rank, "start_index_map entry");
  site.check_dims(a.collapsed_slice_dims, rank, "collapsed slice dim");
  need_sorted(site, a.collapsed_slice_dims, "collapsed_slice_dims");
  need_sorted(site, a.offset_dims, "offset_dims");
  check_batching(site, x, a.operand_batching_dims, site.shape(1), a.start_indices_batching_dims,
                 a.index_vector_dim);
  check_disjoint(site, a.operand_batching_dims, a.collapsed_slice_dims, "batching and collapsed");
  check_disjoint(site, a.operand_batching_dims, a.start_index_map, "batching and indexed");
  if (std::int64_t(a.slice_sizes.size()) != rank) {
    site.shape_error("slice_sizes={" + join(a.slice_sizes) + "} must have " + std::to_string(rank) +
                     " entries");
  }
  Dims window;
  for (std::int64_t d = 0; d < rank; ++d) {
    std::int64_t size = a.slice_sizes[std::size_t(d)];
    if (size < 0 || size > x.dim(d)) {
      site.shape_error("slice size " + std::to_string(size) + " of dim " + std::to_string(d) +
                       " is not in [0, " + std::to_string(x.dim(d)) + "]");
    }
    if (contains(a.collapsed_slice_dims, d) || contains(a.operand_batching_dims, d)) {
      if (size > 1) {
        site.shape_error("dim " + std::to_string(d) +
                         " is dropped from the result and has slice size " + std::to_string(size) +
                         "; valid: 0 or 1");
      }
    } else {
      window.push_back(size);
    }
  }
  if (window.size() != a.offset_dims.size()) {
    site.shape_error("offset_dims={" + join(a.offset_dims) + "} must name " +
                     std::to_string(window.size()) + " result dims, one per dim of a slice");
  }
  auto result_rank = std::int64_t(window.size() + batch.size());
  site.check_dims(a.offset_dims, result_rank, "offset dim");
  Dims dims;
  std::size_t next_window = 0, next_batch = 0;
  for (std::int64_t d = 0; d < result_rank; ++d) {
    dims.push_back(contains(a.offset_dims, d) ? window[next_window++] : batch[next_batch++]);
  }
  return Shape(x.dtype, std::move(dims));
}

Shape infer_scatter(const Site& site) {
  if (site.operands.size() < 3 || site.operands.size() % 2 == 0) {
    site.shape_error("takes n inputs, one index array and n updates, not " +
                     plural(site.operands.size(), "operand"));
  }
  std::size_t n = site.operands.size() / 2;
  const auto& a = site.get<ScatterAttrs>();
  Dims batch = index_batch_dims(site, n, a.index_vector_dim, a.scatter_dims_to_operand_dims.size());
  const Shape& x = site.array(0);
  std::int64_t rank = x.rank();
  site.check_dims(a.scatter_dims_to_operand_dims, rank, "scattered dim");
  site.check_dims(a.inserted_window_dims, rank, "inserted window dim");
  need_sorted(site, a.inserted_window_dims, "inserted_window_dims");
  need_sorted(site, a.update_window_dims, "update_window_dims");
  check_batching(site, x, a.input_batching_dims, site.shape(n), a.scatter_indices_batching_dims,
                 a.index_vector_dim);
  check_disjoint(site, a.input_batching_dims, a.inserted_window_dims, "batching and inserted");
  check_disjoint(site, a.input_batching_dims, a.scatter_dims_to_operand_dims,
                 "batching and scattered");
  Dims window_max;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(a.inserted_window_dims, d) && !contains(a.input_batching_dims, d)) {
      window_max.push_back(x.dim(d));
    }
  }
  if (window_max.size() != a.update_window_dims.size()) {
    site.shape_error("update_window_dims={" + join(a.update_window_dims) + "} must name " +
                     std::to_string(window_max.size()) +
                     " update dims, one per input dim that is not inserted or batching");
  }
  auto update_rank = std::int64_t(window_max.size() + batch.size());
  site.check_dims(a.update_window_dims, update_rank, "update window dim");
  std::vector<Shape> results, scalars;
  for (std::size_t i = 0; i < n; ++i) {
    const Shape& update = site.array(n + 1 + i);
    site.same_dims(0, i);
    site.same_dtype(i, n + 1 + i);
    if (update.rank() != update_rank) {
      site.shape_error("operand " + std::to_string(n + 1 + i) + ", an update, must have rank " +
                       std::to_string(update_rank) + ", not " + std::to_string(update.rank()));
    }
    std::size_t next_window = 0, next_batch = 0;
    for (std::int64_t d = 0; d < update_rank; ++d) {
      if (contains(a.update_window_dims, d)) {
        std::int64_t max = window_max[next_window++];
        if (update.dim(d) > max) {
          site.shape_error("update dim " + std::to_string(d) + " of size " +
                           std::to_string(update.dim(d)) + " is larger than the input's " +
                           std::to_string(max));
        }
      } else if (update.dim(d) != batch[next_batch]) {
        site.shape_error("update dim " + std::to_string(d) + " of size " +
                         std::to_string(update.dim(d)) + " must be " +
                         std::to_string(batch[next_batch]) + ", as in the index array");
      } else {
        ++next_batch;
      }
    }
    results.emplace_back(site.shape(i).dtype, x.dims);
    scalars.emplace_back(site.shape(i).dtype, Dims{});
  }
  site.need_called(1);
  std::vector<Shape> parameters = scalars;
  parameters.insert(parameters.end(), scalars.begin(), scalars.end());
  site.check_parameters(0, parameters, "combiner");
  Shape expected = one_or_tuple(std::move(scalars));
  if (site.result_of(0) != expected) {
    site.shape_error("combiner " + site.called[0]->name() + " gives " +
                     site.result_of(0).to_string() + " and must give " + expected.to_string());
  }
  return one_or_tuple(std::move(results));
}

}  // namespace tessera::ir::inference
