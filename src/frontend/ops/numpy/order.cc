// SPDX-License-Identifier: Apache-2.0
// Sorts by several keys, partitions, the largest elements along any axis.
#include <tessera/ops/order.h>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/numpy/sorting.h"

namespace tessera {

using frontend::as_one_program;
using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace {

void need_one_shape(const std::string& op, const std::vector<Array>& arrays, Location location) {
  if (arrays.empty()) throw ValueError(op + " of no arrays; give one or more", location);
  const Dims& first = impl_of(arrays[0], location).shape.dims;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Dims& dims = impl_of(arrays[i], location).shape.dims;
    if (dims == first && !dims.empty()) continue;
    throw ShapeError(op + ": array " + std::to_string(i) + " has shape " + to_string(dims) +
                         " and array 0 " + to_string(first) +
                         "; all must be equal, of rank 1 or more",
                     location);
  }
}

std::int64_t checked_kth(const std::string& op, const Operand& x, std::int64_t kth,
                         std::int64_t axis) {
  const Shape& shape = shape_of(x);
  const std::int64_t n = shape.dim(frontend::normalize_axis(op, axis, shape.rank(), x.location));
  if (kth < -n || kth >= n) {
    throw ValueError(op + " of " + shape.to_string() + ": kth is " + std::to_string(kth) +
                         ", and axis " + std::to_string(axis) + " has " + std::to_string(n) +
                         " elements",
                     x.location);
  }
  return kth < 0 ? kth + n : kth;
}

void need_floats(const std::string& op, const Operand& x) {
  const Shape& shape = shape_of(x);
  if (!is_floating(shape.dtype)) {
    throw DTypeError(op + " of " + shape.to_string() + "; use top_k, or sort", x.location);
  }
}

}  // namespace

std::vector<Array> sort_together(const std::vector<Array>& arrays, std::int64_t num_keys,
                                 std::int64_t axis, Location location) {
  need_one_shape("sort_together", arrays, location);
  const auto count = std::int64_t(arrays.size());
  if (num_keys < 1 || num_keys > count) {
    throw ValueError("sort_together of " + std::to_string(count) + " arrays by " +
                         std::to_string(num_keys) + " keys; valid are 1 to " +
                         std::to_string(count),
                     location);
  }
  axis = frontend::normalize_axis("sort_together", axis, arrays[0].ndim(), location);
  return as_one_program("sort_together", location, [&] {
    return frontend::sorted_together(arrays, axis, false, location, "sort_together", num_keys);
  });
}

std::pair<Array, Array> sort_key_val(Operand keys, Operand values, std::int64_t axis) {
  const std::vector<Array> both = sort_together({keys.array, values.array}, 1, axis, keys.location);
  return {both[0], both[1]};
}

Array lexsort(const std::vector<Array>& keys, std::int64_t axis, Location location) {
  need_one_shape("lexsort", keys, location);
  axis = frontend::normalize_axis("lexsort", axis, keys[0].ndim(), location);
  return composed("lexsort", location, [&] {
    std::vector<Array> operands(keys.rbegin(), keys.rend());
    operands.push_back(iota(s32, keys[0].shape(), axis, location));
    return frontend::sorted_together(operands, axis, false, location, "lexsort",
                                     std::int64_t(keys.size()))
        .back();
  });
}

Array partition(Operand x, std::int64_t kth, std::int64_t axis) {
  (void)checked_kth("partition", x, kth, axis);
  return sort(x, axis);
}
Array argpartition(Operand x, std::int64_t kth, std::int64_t axis) {
  (void)checked_kth("argpartition", x, kth, axis);
  return argsort(x, axis);
}

std::pair<Array, Array> top_k(Operand x, std::int64_t k, std::int64_t axis) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("top_k", axis, shape.rank(), l);
  if (k < 0 || k > shape.dim(axis)) {
    throw ValueError("top_k of " + shape.to_string() + " along axis " + std::to_string(axis) +
                         " with k = " + std::to_string(k) + "; valid are 0 to " +
                         std::to_string(shape.dim(axis)),
                     l);
  }
  const std::int64_t last = shape.rank() - 1;
  if (axis == last) return top_k(x, k);
  const std::vector<Array> both = as_one_program("top_k", l, [&] {
    const auto [values, places] =
        top_k({frontend::moved_dim(x.array, axis, last, l, "top_k"), l}, k);
    return std::vector<Array>{frontend::moved_dim(values, last, axis, l, "top_k"),
                              frontend::moved_dim(places, last, axis, l, "top_k")};
  });
  return {both[0], both[1]};
}

std::pair<Array, Array> approx_max_k(Operand x, std::int64_t k, std::int64_t axis) {
  need_floats("approx_max_k", x);
  return top_k(x, k, axis);
}

std::pair<Array, Array> approx_min_k(Operand x, std::int64_t k, std::int64_t axis) {
  need_floats("approx_min_k", x);
  const Location l = x.location;
  axis = frontend::normalize_axis("approx_min_k", axis, shape_of(x).rank(), l);
  const std::vector<Array> both = as_one_program("approx_min_k", l, [&] {
    const auto [values, places] = top_k({negative(x), l}, k, axis);
    return std::vector<Array>{negative({values, l}), places};
  });
  return {both[0], both[1]};
}

Array searchsorted(Operand x, Operand values, Operand sorter, bool right) {
  const Location l = x.location;
  frontend::need_integers("searchsorted", sorter.array, l);
  if (shape_of(x).rank() != 1) {
    throw ShapeError("searchsorted in " + shape_of(x).to_string() + "; it takes a vector", l);
  }
  return composed("searchsorted", l, [&] {
    return searchsorted({take(x, sorter, 0, TakeMode::clip), l}, values, right);
  });
}

}  // namespace tessera
