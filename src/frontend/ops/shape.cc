// SPDX-License-Identifier: Apache-2.0
// Reshapes, transposes, concatenation and splitting.
#include <tessera/ops/shape_ops.h>

#include <algorithm>
#include <numeric>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/contains.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace {

Dims resolved_shape(const Shape& from, Dims to, Location location) {
  std::int64_t known = 1, open = -1;
  // For a shape without elements any size would fit.
  const bool empty = contains(to, 0);
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == -1) {
      if (open >= 0) {
        throw ShapeError("reshape to " + to_string(to) + ": only one size may be -1", location);
      }
      open = std::int64_t(d);
    } else if (to[d] < 0) {
      throw ShapeError("reshape to " + to_string(to) + ": size " + std::to_string(to[d]) +
                           "; valid are 0 and more, and one -1 for what is left",
                       location);
    } else {
      known = empty ? 0 : frontend::multiply_sizes("reshape", known, to[d], location);
    }
  }
  const std::int64_t count = from.element_count();
  if (open >= 0) {
    if (known == 0 || count % known != 0) {
      throw ShapeError("reshape of " + from.to_string() + " to " + to_string(to) + ": " +
                           std::to_string(count) + " elements are no multiple of " +
                           std::to_string(known),
                       location);
    }
    to[std::size_t(open)] = count / known;
  } else if (known != count) {
    throw ShapeError("reshape of " + from.to_string() + " to " + to_string(to) +
                         ": the array has " + std::to_string(count) +
                         " elements and that shape has " + std::to_string(known),
                     location);
  }
  return to;
}

}  // namespace

Array reshape(Operand x, std::vector<std::int64_t> shape) {
  return frontend::reshaped(x.array, resolved_shape(shape_of(x), std::move(shape), x.location),
                            x.location);
}
Array ravel(Operand x) {
  return frontend::reshaped(x.array, {shape_of(x).element_count()}, x.location);
}
Array flatten(Operand x) { return ravel(x); }

Array squeeze(Operand x, Axes axes) {
  const Shape& shape = shape_of(x);
  const Dims chosen = frontend::normalize_axes("squeeze", axes, shape.rank(), x.location);
  Dims rest;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    const bool named = std::binary_search(chosen.begin(), chosen.end(), d);
    if (named && !axes.all() && shape.dim(d) != 1) {
      throw ShapeError("squeeze: axis " + std::to_string(d) + " of " + shape.to_string() +
                           " has size " + std::to_string(shape.dim(d)) + "; it must be 1",
                       x.location);
    }
    if (!named || shape.dim(d) != 1) rest.push_back(shape.dim(d));
  }
  return frontend::reshaped(x.array, rest, x.location);
}

Array expand_dims(Operand x, Axes axes) {
  const Shape& shape = shape_of(x);
  const std::int64_t rank = shape.rank() + std::int64_t(axes.list().size());
  const Dims places =
      axes.all() ? Dims{} : frontend::normalize_axes("expand_dims", axes, rank, x.location);
  Dims dims = shape.dims;
  for (std::int64_t place : places) dims.insert(dims.begin() + place, 1);
  return frontend::reshaped(x.array, dims, x.location);
}

Array transpose(Operand x) {
  Dims perm(std::size_t(shape_of(x).rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  return frontend::transposed(x.array, perm, x.location);
}
Array transpose(Operand x, std::vector<std::int64_t> perm) {
  const Shape& shape = shape_of(x);
  if (std::int64_t(perm.size()) != shape.rank()) {
    throw ValueError("transpose of " + shape.to_string() + ": " + to_string(perm) + " must name " +
                         std::to_string(shape.rank()) + " axes, each once",
                     x.location);
  }
  (void)frontend::normalize_axes("transpose", Axes(perm), shape.rank(), x.location);
  for (std::int64_t& p : perm) p = p < 0 ? p + shape.rank() : p;
  return frontend::transposed(x.array, perm, x.location);
}

Array swapaxes(Operand x, std::int64_t a, std::int64_t b) {
  const std::int64_t rank = shape_of(x).rank();
  a = frontend::normalize_axis("swapaxes", a, rank, x.location);
  b = frontend::normalize_axis("swapaxes", b, rank, x.location);
  Dims perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[std::size_t(a)], perm[std::size_t(b)]);
  return frontend::transposed(x.array, perm, x.location, "swapaxes");
}

Array moveaxis(Operand x, Axes source, Axes destination) {
  const std::int64_t rank = shape_of(x).rank();
  const Dims from = source.list(), to = destination.list();
  if (from.size() != to.size()) {
    throw ValueError("moveaxis: " + std::to_string(from.size()) + " source axes " +
                         to_string(from) + " and " + std::to_string(to.size()) + " destinations " +
                         to_string(to) + "; they must pair up",
                     x.location);
  }
  (void)frontend::normalize_axes("moveaxis", source, rank, x.location);
  (void)frontend::normalize_axes("moveaxis", destination, rank, x.location);
  Dims perm(std::size_t(rank), -1);
  std::vector<bool> moved(std::size_t(rank), false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t s = from[i] < 0 ? from[i] + rank : from[i];
    perm[std::size_t(to[i] < 0 ? to[i] + rank : to[i])] = s;
    moved[std::size_t(s)] = true;
  }
  std::int64_t next = 0;
  for (std::int64_t& p : perm) {
    if (p >= 0) continue;
    while (moved[std::size_t(next)]) ++next;
    p = next++;
  }
  return frontend::transposed(x.array, perm, x.location, "moveaxis");
}

Array broadcast_to(Operand x, std::vector<std::int64_t> shape) {
  const Shape& from = shape_of(x);
  bool fits = from.rank() <= std::int64_t(shape.size());
  for (std::int64_t d = 1; fits && d <= from.rank(); ++d) {
    const std::int64_t have = from.dim(from.rank() - d);
    fits = have == 1 || have == shape[shape.size() - std::size_t(d)];
  }
  for (std::int64_t size : shape) fits = fits && size >= 0;
  if (!fits) {
    throw ShapeError("broadcast_to: " + from.to_string() + " doesn't broadcast to " +
                         to_string(shape) + ": counted from the end, each of its sizes must be 1 " +
                         "or that of the new shape",
                     x.location);
  }
  return composed("broadcast_to", x.location,
                  [&] { return frontend::broadcasted(x.array, shape, x.location); });
}

std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays, Location location) {
  if (arrays.empty()) return {};
  Dims dims = impl_of(arrays[0], location).shape.dims;
  for (const Array& a : arrays) {
    dims = frontend::broadcast_shapes("broadcast_arrays", dims, impl_of(a, location).shape.dims,
                                      location);
  }
  return as_one_program("broadcast_arrays", location, [&] {
    std::vector<Array> out;
    for (const Array& a : arrays) out.push_back(frontend::broadcasted(a, dims, location));
    return out;
  });
}

Array atleast_1d(Operand x) {
  return shape_of(x).rank() >= 1 ? x.array : frontend::reshaped(x.array, {1}, x.location);
}
Array atleast_2d(Operand x) {
  const Shape& shape = shape_of(x);
  if (shape.rank() >= 2) return x.array;
  return frontend::reshaped(x.array, {1, shape.element_count()}, x.location);
}

namespace {

/// Checks that sizes agree except along `axis`; returns the arrays in their common dtype.
std::vector<Array> joinable(const std::string& op, const std::vector<Array>& arrays,
                            std::int64_t axis, Location location) {
  const frontend::TypeNode type = frontend::promote(arrays, location);
  const Dims& first = arrays[0].shape();
  std::vector<Array> out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Dims& dims = arrays[i].shape();
    bool same = dims.size() == first.size();
    for (std::size_t d = 0; same && d < dims.size(); ++d) {
      same = std::int64_t(d) == axis || dims[d] == first[d];
    }
    if (!same) {
      throw ShapeError(op + ": array " + std::to_string(i) + " has shape " + to_string(dims) +
                           " and array 0 " + to_string(first) +
                           "; they must have one rank and be equal in all dims but " +
                           std::to_string(axis),
                       location);
    }
    out.push_back(frontend::converted(arrays[i], type.dtype, location, type.weak));
  }
  return out;
}

void need_arrays(const std::string& op, const std::vector<Array>& arrays, Location location) {
  if (arrays.empty()) throw ValueError(op + " of no arrays; give one or more", location);
  for (const Array& a : arrays) (void)impl_of(a, location);
}

}  // namespace

Array concatenate(const std::vector<Array>& arrays, std::int64_t axis, Location location) {
  need_arrays("concatenate", arrays, location);
  if (arrays[0].ndim() == 0) {
    throw ShapeError("concatenate of scalars: they have no axis; use stack", location);
  }
  axis = frontend::normalize_axis("concatenate", axis, arrays[0].ndim(), location);
  return composed("concatenate", location, [&] {
    return frontend::concatenated(joinable("concatenate", arrays, axis, location), axis, location);
  });
}

Array stack(const std::vector<Array>& arrays, std::int64_t axis, Location location) {
  need_arrays("stack", arrays, location);
  axis = frontend::normalize_axis("stack", axis, arrays[0].ndim() + 1, location);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].shape() != arrays[0].shape()) {
      throw ShapeError("stack: array " + std::to_string(i) + " has shape " +
                           to_string(arrays[i].shape()) + " and array 0 " +
                           to_string(arrays[0].shape()) + "; all must be equal",
                       location);
    }
  }
  return composed("stack", location, [&] {
    std::vector<Array> planes = joinable("stack", arrays, -1, location);
    for (Array& plane : planes) {
      Dims dims = plane.shape();
      dims.insert(dims.begin() + axis, 1);
      plane = frontend::reshaped(plane, dims, location);
    }
    return frontend::concatenated(planes, axis, location, "stack");
  });
}

Array vstack(const std::vector<Array>& arrays, Location location) {
  need_arrays("vstack", arrays, location);
  return composed("vstack", location, [&] {
    std::vector<Array> rows;
    for (const Array& a : arrays) rows.push_back(atleast_2d({a, location}));
    return frontend::concatenated(joinable("vstack", rows, 0, location), 0, location, "vstack");
  });
}
Array hstack(const std::vector<Array>& arrays, Location location) {
  need_arrays("hstack", arrays, location);
  return composed("hstack", location, [&] {
    std::vector<Array> parts;
    for (const Array& a : arrays) parts.push_back(atleast_1d({a, location}));
    const std::int64_t axis = parts[0].ndim() == 1 ? 0 : 1;
    return frontend::concatenated(joinable("hstack", parts, axis, location), axis, location,
                                  "hstack");
  });
}

namespace {

std::vector<Array> cut(const std::string& op, const Operand& x, const Dims& borders,
                       std::int64_t axis) {
  return as_one_program(op, x.location, [&] {
    std::vector<Array> out;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      out.push_back(frontend::sliced_dim(x.array, axis, borders[i],
                                         std::max(borders[i], borders[i + 1]), x.location, op));
    }
    return out;
  });
}

std::int64_t need_sections(const std::string& op, std::int64_t sections, Location location) {
  if (sections < 1) {
    throw ValueError(op + " into " + std::to_string(sections) + " parts; give 1 or more", location);
  }
  return sections;
}

}  // namespace

std::vector<Array> split(Operand x, std::int64_t sections, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("split", axis, shape.rank(), x.location);
  need_sections("split", sections, x.location);
  const std::int64_t size = shape.dim(axis);
  if (size % sections != 0) {
    throw ShapeError("split of " + shape.to_string() + ": axis " + std::to_string(axis) +
                         " of size " + std::to_string(size) + " has no " +
                         std::to_string(sections) + " equal parts; use array_split or positions",
                     x.location);
  }
  Dims borders;
  for (std::int64_t i = 0; i <= sections; ++i) borders.push_back(i * (size / sections));
  return cut("split", x, borders, axis);
}

std::vector<Array> split(Operand x, std::vector<std::int64_t> indices, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("split", axis, shape.rank(), x.location);
  const std::int64_t size = shape.dim(axis);
  Dims borders{0};
  for (std::int64_t i : indices) {
    borders.push_back(std::clamp(i < 0 ? i + size : i, std::int64_t(0), size));
  }
  borders.push_back(size);
  return cut("split", x, borders, axis);
}

std::vector<Array> array_split(Operand x, std::int64_t sections, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("array_split", axis, shape.rank(), x.location);
  need_sections("array_split", sections, x.location);
  const std::int64_t size = shape.dim(axis);
  Dims borders{0};
  for (std::int64_t i = 0; i < sections; ++i) {
    borders.push_back(borders.back() + size / sections + (i < size % sections ? 1 : 0));
  }
  return cut("array_split", x, borders, axis);
}

std::vector<Array> unstack(Operand x, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("unstack", axis, shape.rank(), x.location);
  Dims rest = shape.dims;
  rest.erase(rest.begin() + axis);
  if (shape.dim(axis) == 0) return {};
  return as_one_program("unstack", x.location, [&] {
    std::vector<Array> out;
    for (std::int64_t i = 0; i < shape.dim(axis); ++i) {
      out.push_back(frontend::reshaped(
          frontend::sliced_dim(x.array, axis, i, i + 1, x.location, "unstack"), rest, x.location));
    }
    return out;
  });
}

}  // namespace tessera
