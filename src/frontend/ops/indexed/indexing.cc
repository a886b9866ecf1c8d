// SPDX-License-Identifier: Apache-2.0
// Indexing and slices, at static and computed positions.
#include <tessera/ops/indexing.h>

#include <algorithm>

#include <tessera/ops/elementwise.h>

#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/indexed/index_plan.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

Array slice(Operand x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
            std::vector<std::int64_t> strides) {
  const Shape& shape = shape_of(x);
  if (strides.empty()) strides.assign(starts.size(), 1);
  const auto rank = std::size_t(shape.rank());
  if (starts.size() != rank || limits.size() != rank || strides.size() != rank) {
    throw ShapeError("slice of " + shape.to_string() + ": starts " + to_string(starts) +
                         ", limits " + to_string(limits) + ", strides " + to_string(strides) +
                         " must have " + std::to_string(rank) + " entries each",
                     x.location);
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > shape.dims[d]) {
      throw ShapeError("slice of " + shape.to_string() + ": [" + std::to_string(starts[d]) + ", " +
                           std::to_string(limits[d]) + ") in dim " + std::to_string(d) +
                           " must be within [0, " + std::to_string(shape.dims[d]) + ")",
                       x.location);
    }
    if (strides[d] < 1) {
      throw ValueError("slice: stride " + std::to_string(strides[d]) + " of dim " +
                           std::to_string(d) + " must be 1 or more",
                       x.location);
    }
  }
  for (std::size_t d = 0; d < rank; ++d) {
    strides[d] = std::min(strides[d], std::max<std::int64_t>(shape.dims[d], 1));
  }
  return frontend::sliced(x.array, starts, limits, strides, x.location);
}

Array slice_in_dim(Operand x, std::optional<std::int64_t> start, std::optional<std::int64_t> limit,
                   std::int64_t stride, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("slice_in_dim", axis, shape.rank(), x.location);
  if (stride < 1) {
    throw ValueError("slice_in_dim: stride " + std::to_string(stride) + " must be 1 or more",
                     x.location);
  }
  const frontend::Span span =
      frontend::span_of({start, limit, stride}, shape.dim(axis), "slice_in_dim", x.location);
  Dims starts(shape.dims.size(), 0), limits = shape.dims, strides(shape.dims.size(), 1);
  starts[std::size_t(axis)] = span.start;
  limits[std::size_t(axis)] = span.limit;
  strides[std::size_t(axis)] = span.stride;
  return frontend::sliced(x.array, starts, limits, strides, x.location, "slice_in_dim");
}

Array index(Operand x, std::vector<IndexItem> items) {
  const Location location = x.location;
  const frontend::IndexPlan plan =
      frontend::index_plan("index", std::move(items), shape_of(x), location);
  return composed("index", location, [&] {
    const Array inner = frontend::inner_of(x.array, plan, location, "index");
    return frontend::reshaped(frontend::picked(inner, plan, {}, location, "index"), plan.result,
                              location);
  });
}

namespace {

/// Start positions as scalars of one integer dtype, with negative ones counted from the end.
std::vector<Array> start_scalars(const std::string& op, const std::vector<Array>& starts,
                                 const Dims& dims, Location location) {
  std::vector<Array> list;
  for (const Array& s : starts) {
    const Shape& shape = impl_of(s, location).shape;
    if (!is_integer(shape.dtype)) {
      throw DTypeError(op + ": a start place is " + shape.to_string() + "; it must be an integer",
                       location);
    }
  }
  if (starts.size() == 1 && starts[0].ndim() == 1) {
    const std::int64_t n = starts[0].size();
    for (std::int64_t i = 0; i < n; ++i) {
      list.push_back(frontend::reshaped(frontend::sliced_dim(starts[0], 0, i, i + 1, location, op),
                                        {}, location));
    }
  } else {
    list = starts;
  }
  if (list.size() != dims.size()) {
    throw ShapeError(op + ": " + std::to_string(list.size()) + " start places for " +
                         std::to_string(dims.size()) + " dims; give one per dim",
                     location);
  }
  for (const Array& s : list) {
    if (s.ndim() != 0) {
      throw ShapeError(op + ": a start place is " + s.type_string() + "; it must be a scalar",
                       location);
    }
  }
  if (list.empty()) return list;
  const DType t = frontend::promote(list, location).dtype;
  for (std::size_t d = 0; d < list.size(); ++d) {
    list[d] = frontend::converted(list[d], t, location);
    list[d] = frontend::from_the_end(list[d], dims[d], location);
  }
  return list;
}

}  // namespace

Array dynamic_slice(Operand x, const std::vector<Array>& starts, std::vector<std::int64_t> sizes) {
  const Shape& shape = shape_of(x);
  if (sizes.size() != shape.dims.size()) {
    throw ShapeError("dynamic_slice of " + shape.to_string() + ": sizes " + to_string(sizes) +
                         " must have " + std::to_string(shape.rank()) + " entries",
                     x.location);
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > shape.dims[d]) {
      throw ShapeError("dynamic_slice of " + shape.to_string() + ": size " +
                           std::to_string(sizes[d]) + " of dim " + std::to_string(d) +
                           "; valid are 0 to " + std::to_string(shape.dims[d]),
                       x.location);
    }
  }
  return composed("dynamic_slice", x.location, [&] {
    std::vector<Array> operands{x.array};
    for (const Array& s : start_scalars("dynamic_slice", starts, shape.dims, x.location)) {
      operands.push_back(s);
    }
    return frontend::apply(ir::Opcode::dynamic_slice, operands, ir::DynamicSliceAttrs{sizes},
                           x.location, "dynamic_slice", nullptr, nullptr, x.array.weak_type());
  });
}

Array dynamic_update_slice(Operand x, Operand update, const std::vector<Array>& starts) {
  const Shape& shape = shape_of(x);
  const Shape& part = impl_of(update.array, x.location).shape;
  bool fits = part.rank() == shape.rank();
  for (std::int64_t d = 0; fits && d < part.rank(); ++d) fits = part.dim(d) <= shape.dim(d);
  if (!fits) {
    throw ShapeError("dynamic_update_slice: the update " + part.to_string() +
                         " must have the rank of " + shape.to_string() +
                         " and be no larger in any dim",
                     x.location);
  }
  if (part.dtype != shape.dtype && !update.array.weak_type()) {
    throw DTypeError("dynamic_update_slice of " + shape.to_string() + " with " + part.to_string() +
                         ": the dtypes must be equal (convert with astype)",
                     x.location);
  }
  return composed("dynamic_update_slice", x.location, [&] {
    std::vector<Array> operands{x.array,
                                frontend::converted(update.array, shape.dtype, x.location)};
    for (const Array& s : start_scalars("dynamic_update_slice", starts, shape.dims, x.location)) {
      operands.push_back(s);
    }
    return frontend::apply(ir::Opcode::dynamic_update_slice, operands, {}, x.location,
                           "dynamic_update_slice", nullptr, nullptr, x.array.weak_type());
  });
}

namespace {

std::vector<Array> start_along(const Operand& start, std::int64_t axis, std::int64_t rank) {
  const DType t = impl_of(start.array, start.location).shape.dtype;
  std::vector<Array> starts(std::size_t(rank), frontend::constant(is_integer(t) ? t : s32, 0));
  starts[std::size_t(axis)] = start.array;
  return starts;
}

}  // namespace

Array dynamic_slice_in_dim(Operand x, Operand start, std::int64_t size, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("dynamic_slice_in_dim", axis, shape.rank(), x.location);
  Dims sizes = shape.dims;
  sizes[std::size_t(axis)] = size;
  return dynamic_slice(x, start_along(start, axis, shape.rank()), sizes);
}
Array dynamic_update_slice_in_dim(Operand x, Operand update, Operand start, std::int64_t axis) {
  const std::int64_t rank = shape_of(x).rank();
  axis = frontend::normalize_axis("dynamic_update_slice_in_dim", axis, rank, x.location);
  return dynamic_update_slice(x, update, start_along(start, axis, rank));
}
Array dynamic_index_in_dim(Operand x, Operand place, std::int64_t axis, bool keepdims) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("dynamic_index_in_dim", axis, shape.rank(), x.location);
  return composed("dynamic_index_in_dim", x.location, [&] {
    const Array y = dynamic_slice_in_dim(x, place, 1, axis);
    Dims rest = shape.dims;
    rest.erase(rest.begin() + axis);
    return keepdims ? y : frontend::reshaped(y, rest, x.location);
  });
}
Array dynamic_update_index_in_dim(Operand x, Operand update, Operand place, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("dynamic_update_index_in_dim", axis, shape.rank(), x.location);
  return composed("dynamic_update_index_in_dim", x.location, [&] {
    Array part = update.array;
    if (impl_of(part, x.location).shape.rank() + 1 == shape.rank()) {
      Dims dims = part.shape();
      dims.insert(dims.begin() + axis, 1);
      part = frontend::reshaped(part, dims, x.location);
    }
    return dynamic_update_slice_in_dim(x, {part, x.location}, place, axis);
  });
}

}  // namespace tessera
