// SPDX-License-Identifier: Apache-2.0
// Repetition, reversal, rotation, padding, diagonals.
#include <algorithm>
#include <numeric>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace {}  // namespace

Array tile(Operand x, std::vector<std::int64_t> reps) {
  Dims dims = shape_of(x).dims;
  for (std::int64_t r : reps) {
    if (r < 0) throw ValueError("tile: repeats " + to_string(reps) + " below 0", x.location);
  }
  const std::size_t rank = std::max(dims.size(), reps.size());
  dims.insert(dims.begin(), rank - dims.size(), 1);
  reps.insert(reps.begin(), rank - reps.size(), 1);
  return composed("tile", x.location, [&] {
    // [a, b] as [ra, a, rb, b], without the dims that aren't repeated.
    Dims full, from, mapping, out;
    for (std::size_t d = 0; d < rank; ++d) {
      if (reps[d] != 1) full.push_back(reps[d]);
      mapping.push_back(std::int64_t(full.size()));
      full.push_back(dims[d]);
      out.push_back(frontend::multiply_sizes("tile", dims[d], reps[d], x.location));
    }
    frontend::check_size("tile", Shape(x.array.dtype(), out), x.location);
    Array y = frontend::reshaped(x.array, dims, x.location);
    if (full.size() != rank) y = frontend::broadcast_in_dim(y, full, mapping, x.location, "tile");
    return frontend::reshaped(y, out, x.location);
  });
}

Array repeat(Operand x, std::int64_t count, std::optional<std::int64_t> axis) {
  const Shape& shape = shape_of(x);
  if (count < 0) {
    throw ValueError("repeat: " + std::to_string(count) + " times; give 0 or more", x.location);
  }
  const std::int64_t dim =
      axis ? frontend::normalize_axis("repeat", *axis, shape.rank(), x.location) : 0;
  return composed("repeat", x.location, [&] {
    const Array y = axis ? x.array : ravel(x);
    Dims full = y.shape(), mapping(full.size()), out = full;
    full.insert(full.begin() + dim + 1, count);
    std::iota(mapping.begin(), mapping.end(), 0);
    for (std::size_t d = std::size_t(dim) + 1; d < mapping.size(); ++d) ++mapping[d];
    out[std::size_t(dim)] =
        frontend::multiply_sizes("repeat", out[std::size_t(dim)], count, x.location);
    frontend::check_size("repeat", Shape(y.dtype(), out), x.location);
    return frontend::reshaped(frontend::broadcast_in_dim(y, full, mapping, x.location, "repeat"),
                              out, x.location);
  });
}

Array flip(Operand x, Axes axes) {
  return frontend::reversed(
      x.array, frontend::normalize_axes("flip", axes, shape_of(x).rank(), x.location), x.location);
}

namespace {

Array rolled(const Array& x, std::int64_t dim, std::int64_t shift, Location location) {
  const std::int64_t size = x.shape()[std::size_t(dim)];
  if (size == 0) return x;
  const std::int64_t by = ((shift % size) + size) % size;
  if (by == 0) return x;
  return frontend::concatenated({frontend::sliced_dim(x, dim, size - by, size, location, "roll"),
                                 frontend::sliced_dim(x, dim, 0, size - by, location, "roll")},
                                dim, location, "roll");
}

}  // namespace

Array roll(Operand x, std::int64_t shift, Axes axes) {
  if (!axes.all()) return roll(x, std::vector<std::int64_t>{shift}, axes);
  return composed("roll", x.location, [&] {
    return frontend::reshaped(rolled(ravel(x), 0, shift, x.location), shape_of(x).dims, x.location);
  });
}
Array roll(Operand x, std::vector<std::int64_t> shifts, Axes axes) {
  if (axes.all()) {
    throw ValueError("roll by " + to_string(shifts) + " needs as many axes", x.location);
  }
  const Dims list = axes.list();
  if (shifts.size() == 1) shifts.assign(list.size(), shifts[0]);
  if (shifts.size() != list.size()) {
    throw ValueError("roll by " + to_string(shifts) + " along axes " + to_string(list) +
                         ": give one shift, or one for each axis",
                     x.location);
  }
  const std::int64_t rank = shape_of(x).rank();
  Dims dims;
  for (std::int64_t a : list) dims.push_back(frontend::normalize_axis("roll", a, rank, x.location));
  return composed("roll", x.location, [&] {
    Array y = x.array;
    for (std::size_t i = 0; i < dims.size(); ++i) y = rolled(y, dims[i], shifts[i], x.location);
    return y;
  });
}

Array rot90(Operand x, std::int64_t turns) {
  const std::int64_t rank = shape_of(x).rank();
  if (rank < 2) {
    throw ShapeError("rot90 needs rank 2 or more, got " + shape_of(x).to_string(), x.location);
  }
  return composed("rot90", x.location, [&] {
    const std::int64_t k = ((turns % 4) + 4) % 4;
    if (k == 0) return x.array;
    if (k == 2) return flip(x, {0, 1});
    if (k == 1) return swapaxes({flip(x, 1), x.location}, 0, 1);
    return flip({swapaxes(x, 0, 1), x.location}, 1);
  });
}

namespace {

/// The two axes of a diagonal, normalized and checked to be different.
std::pair<std::int64_t, std::int64_t> plane_of(const std::string& op, const Operand& x,
                                               std::int64_t a, std::int64_t b) {
  const Shape& shape = shape_of(x);
  if (shape.rank() < 2) {
    throw ShapeError(op + " needs rank 2 or more, got " + shape.to_string(), x.location);
  }
  a = frontend::normalize_axis(op, a, shape.rank(), x.location);
  b = frontend::normalize_axis(op, b, shape.rank(), x.location);
  if (a == b) {
    throw ValueError(
        op + ": axis1 and axis2 are both " + std::to_string(a) + "; they must be different",
        x.location);
  }
  return {a, b};
}

}  // namespace

Array diagonal(Operand x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  const auto [a, b] = plane_of("diagonal", x, axis1, axis2);
  return composed("diagonal", x.location, [&, a = a, b = b] {
    // The part of the plane that begins at the diagonal's first element: each position along dim b
    // then has one element of the diagonal.
    const Dims& dims = shape_of(x).dims;
    const std::int64_t rows = dims[std::size_t(a)], columns = dims[std::size_t(b)];
    const std::int64_t row = std::min(std::max<std::int64_t>(-offset, 0), rows);
    const std::int64_t column = std::min(std::max<std::int64_t>(offset, 0), columns);
    const std::int64_t n = std::min(rows - row, columns - column);
    Array y = frontend::sliced_dim(x.array, a, row, row + n, x.location, "diagonal");
    y = frontend::sliced_dim(y, b, column, column + n, x.location, "diagonal");
    y = frontend::masked_diagonal(y, a, b, 0, x.location, "diagonal");
    return frontend::moved_dim(y, b > a ? b - 1 : b, y.ndim() - 1, x.location, "diagonal");
  });
}

Array diag(Operand x, std::int64_t k) {
  const Shape& shape = shape_of(x);
  if (shape.rank() == 2) return diagonal(x, k);
  if (shape.rank() != 1) {
    throw ShapeError("diag takes a vector or a matrix, got " + shape.to_string(), x.location);
  }
  return composed("diag", x.location, [&] {
    const std::int64_t n = shape.dim(0) + std::abs(k);
    const std::vector<ir::PadDim> margins{
        {std::max<std::int64_t>(k, 0), std::max<std::int64_t>(-k, 0), 0}};
    const Array zero = frontend::program_constant(shape.dtype, 0);
    // Column j holds x[j - max(k, 0)] in row j - k.
    const Array columns =
        frontend::broadcast_in_dim(frontend::padded(x.array, zero, margins, x.location, "diag"),
                                   {n, n}, {1}, x.location, "diag");
    return where({eye(n, n, k, DType::pred, x.location), x.location}, {columns, x.location},
                 {zero, x.location});
  });
}

Array trace(Operand x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  const auto [a, b] = plane_of("trace", x, axis1, axis2);
  return composed("trace", x.location, [&, a = a, b = b] {
    const Dims& dims = shape_of(x).dims;
    const Dims plane{dims[std::size_t(a)], dims[std::size_t(b)]};
    const Array mask =
        frontend::broadcast_in_dim(eye(plane[0], plane[1], offset, DType::pred, x.location), dims,
                                   {a, b}, x.location, "trace");
    const Array kept =
        where({mask, x.location}, x, {frontend::program_constant(x.array.dtype(), 0), x.location});
    return sum({kept, x.location}, {a, b});
  });
}

std::vector<Array> meshgrid(const std::vector<Array>& arrays, bool xy, Location location) {
  std::vector<std::int64_t> sizes;
  for (const Array& a : arrays) {
    const Shape& shape = impl_of(a, location).shape;
    if (shape.rank() > 1) {
      throw ShapeError("meshgrid takes vectors, got " + shape.to_string(), location);
    }
    sizes.push_back(shape.element_count());
  }
  const bool swap = xy && arrays.size() >= 2;
  if (swap) std::swap(sizes[0], sizes[1]);
  return as_one_program("meshgrid", location, [&] {
    std::vector<Array> out;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::size_t dim = swap && i < 2 ? 1 - i : i;
      out.push_back(frontend::broadcast_in_dim(ravel({arrays[i], location}), sizes,
                                               {std::int64_t(dim)}, location, "meshgrid"));
    }
    return out;
  });
}

}  // namespace tessera
