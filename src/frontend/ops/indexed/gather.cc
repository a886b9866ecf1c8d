// SPDX-License-Identifier: Apache-2.0
// take, take_along_axis and embedding_lookup, staged as gathers.
#include "src/frontend/ops/indexed/gather.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/frontend/ops/moves.h"
#include "src/ir/analysis/indexed_dims.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace frontend {

std::vector<Array> index_arrays(const std::string& op, const std::vector<Array>& arrays,
                                Location location) {
  DType t = promote(arrays, location).dtype;
  if (!is_integer(t)) {
    throw DTypeError(op + ": indices of type " + std::string(name(t)) + "; they must be integers",
                     location);
  }
  if (byte_size(t) < 4) t = s32;
  Dims dims = arrays[0].shape();
  for (const Array& a : arrays) dims = broadcast_shapes(op, dims, a.shape(), location);
  std::vector<Array> out;
  for (const Array& a : arrays) {
    out.push_back(broadcasted(converted(a, t, location), dims, location));
  }
  return out;
}

Array from_the_end(const Array& positions, std::int64_t size, Location location) {
  const DType t = positions.dtype();
  if (is_unsigned_integer(t)) return positions;
  const Operand p{positions, location};
  const Operand wrapped{add(p, {program_constant(Literal::scalar(t, size)), location}), location};
  return where({less(p, {program_constant(t, 0), location}), location}, wrapped, p);
}

Array gathered(const Array& x, const std::vector<Array>& positions, const Dims& dims,
               std::int64_t before, Location location, const std::string& name) {
  const std::int64_t batch = positions[0].ndim();
  Array indices = positions[0];
  if (positions.size() > 1) {
    std::vector<Array> columns;
    Dims column = indices.shape();
    column.push_back(1);
    for (const Array& p : positions) columns.push_back(reshaped(p, column, location));
    indices = concatenated(columns, batch, location, name);
  }
  ir::GatherAttrs attrs;
  attrs.collapsed_slice_dims = dims;
  attrs.start_index_map = dims;
  attrs.index_vector_dim = batch;
  attrs.slice_sizes = x.shape();
  for (std::int64_t d : dims) attrs.slice_sizes[std::size_t(d)] = 1;
  const std::int64_t left = x.ndim() - std::int64_t(dims.size());
  for (std::int64_t d = 0; d < left; ++d) attrs.offset_dims.push_back(d < before ? d : d + batch);
  const std::vector<Array> operands{x, indices};
  return apply(ir::Opcode::gather, operands, attrs, location, name, nullptr, nullptr,
               x.weak_type());
}

Literal fill_literal(DType t) {
  if (is_small_float(t)) {
    return small_float_scalar(t, std::numeric_limits<double>::quiet_NaN());
  }
  if (is_floating(t) || is_complex(t)) {
    return Literal::scalar(t, std::numeric_limits<double>::quiet_NaN());
  }
  if (t == DType::pred) return Literal::scalar(t, true);
  return *ir::identity_of(is_unsigned_integer(t) ? ir::Opcode::minimum : ir::Opcode::maximum, t);
}

Array fill_scalar(const std::string& op, const std::optional<Array>& value, DType t,
                  Location location) {
  if (!value) return program_constant(fill_literal(t));
  if (impl_of(*value, location).shape.rank() != 0) {
    throw ShapeError(op + ": the fill value must be a scalar, got " + value->type_string(),
                     location);
  }
  return converted(*value, t, location);
}

Array in_range(const Array& positions, std::int64_t size, Location location) {
  const DType t = positions.dtype();
  const Operand at{positions, location};
  const Array below = less(at, {program_constant(Literal::scalar(t, size)), location});
  if (is_unsigned_integer(t)) return below;
  const Operand zero{program_constant(t, 0), location};
  return logical_and({below, location}, {greater_equal(at, zero), location});
}

Array filled(const Array& x, const Array& valid, const Dims& mapping, const Array& fill,
             Location location, const std::string& name) {
  const std::vector<Array> operands{broadcast_in_dim(valid, x.shape(), mapping, location, name), x,
                                    broadcasted(fill, x.shape(), location)};
  return apply(ir::Opcode::select, operands, {}, location, name, nullptr, nullptr, x.weak_type());
}

Array positions_in_mode(const Array& positions, std::int64_t size, IndexMode mode,
                        Location location) {
  const DType t = positions.dtype();
  const Operand n{program_constant(Literal::scalar(t, size)), location};
  if (mode == IndexMode::wrap) return remainder({positions, location}, n);
  const Array at = from_the_end(positions, size, location);
  if (mode != IndexMode::clip) return at;
  const Operand last{program_constant(Literal::scalar(t, size - 1)), location};
  const Operand low{maximum({at, location}, {program_constant(t, 0), location}), location};
  return minimum(low, last);
}

Array picked(const Array& inner, const IndexPlan& plan, const IndexOptions& options,
             Location location, const std::string& name) {
  if (plan.places.empty()) return inner;
  const Shape out(inner.dtype(), plan.gathered);
  if (out.element_count() == 0) {
    return broadcasted(program_constant(inner.dtype(), 0), plan.gathered, location);
  }
  const bool fills = options.mode == IndexMode::fill || options.mode == IndexMode::drop;
  std::vector<Array> places = index_arrays(name, plan.places, location);
  Array valid;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t size = inner.shape()[std::size_t(plan.picked[i])];
    // The gather itself clamps.
    const IndexMode mode = options.mode == IndexMode::wrap ? options.mode : IndexMode::automatic;
    places[i] = positions_in_mode(places[i], size, mode, location);
    if (!fills) continue;
    const Array within = in_range(places[i], size, location);
    valid = valid.valid() ? logical_and({valid, location}, {within, location}) : within;
  }
  const Array y = gathered(inner, places, plan.picked, plan.before, location, name);
  if (!fills) return y;
  Dims mapping(plan.places_shape.size());
  std::iota(mapping.begin(), mapping.end(), plan.before);
  return filled(y, valid, mapping, fill_scalar(name, options.fill_value, y.dtype(), location),
                location, name);
}

void need_integers(const std::string& op, const Array& indices, Location location) {
  const Shape& shape = impl_of(indices, location).shape;
  if (!is_integer(shape.dtype)) {
    throw DTypeError(op + ": the indices are " + shape.to_string() + "; they must be integers",
                     location);
  }
}

}  // namespace frontend

namespace {

using frontend::need_integers;

/// Indices adjusted for a mode; `valid` becomes the mask of mode fill.
Array prepared(const Array& indices, std::int64_t size, TakeMode mode, Location location,
               Array& valid) {
  const DType t = indices.dtype();
  const Operand n{frontend::program_constant(Literal::scalar(t, size)), location};
  Operand at{indices, location};
  if (mode == TakeMode::wrap) return remainder(at, n);
  if (mode == TakeMode::clip) {
    // The gather itself clamps, and treats unsigned numbers beyond the signed range as too large.
    return indices;
  }
  at.array = frontend::from_the_end(indices, size, location);
  valid = frontend::in_range(at.array, size, location);
  return at.array;
}

void need_elements(const std::string& op, const Shape& shape, std::int64_t axis,
                   const Array& indices, Location location) {
  if (shape.dim(axis) == 0 && indices.size() > 0) {
    throw ShapeError(op + " from axis " + std::to_string(axis) + " of " + shape.to_string() +
                         ", which has no elements",
                     location);
  }
}

}  // namespace

Array take(Operand x, Operand indices, std::optional<std::int64_t> axis, TakeMode mode) {
  const Shape& shape = shape_of(x);
  const Location location = x.location;
  need_integers("take", indices.array, location);
  if (!axis) {
    return composed("take", location, [&] { return take({ravel(x), location}, indices, 0, mode); });
  }
  const std::int64_t dim = frontend::normalize_axis("take", *axis, shape.rank(), location);
  need_elements("take", shape, dim, indices.array, location);
  return composed("take", location, [&] {
    const Array at = frontend::index_arrays("take", {indices.array}, location)[0];
    if (at.size() == 0) {
      Dims dims = shape.dims;
      dims.erase(dims.begin() + dim);
      dims.insert(dims.begin() + dim, at.shape().begin(), at.shape().end());
      return frontend::broadcasted(frontend::program_constant(shape.dtype, 0), dims, location);
    }
    Array valid;
    const Array ready = prepared(at, shape.dim(dim), mode, location, valid);
    const Array out = frontend::gathered(x.array, {ready}, {dim}, dim, location, "take");
    if (!valid.valid()) return out;
    Dims mapping(std::size_t(at.ndim()));
    std::iota(mapping.begin(), mapping.end(), dim);
    return frontend::filled(out, valid, mapping,
                            frontend::program_constant(frontend::fill_literal(shape.dtype)),
                            location, "take");
  });
}

Array take_along_axis(Operand x, Operand indices, std::optional<std::int64_t> axis, TakeMode mode) {
  const Location location = x.location;
  need_integers("take_along_axis", indices.array, location);
  if (!axis) {
    if (indices.array.ndim() != 1) {
      throw ShapeError("take_along_axis without an axis takes a vector of indices, got " +
                           indices.array.type_string(),
                       location);
    }
    return take({ravel(x), location}, indices, 0, mode);
  }
  const Shape& shape = shape_of(x);
  const std::int64_t rank = shape.rank();
  const std::int64_t dim = frontend::normalize_axis("take_along_axis", *axis, rank, location);
  if (indices.array.ndim() != rank) {
    throw ShapeError("take_along_axis: the array is " + shape.to_string() + " and the indices " +
                         indices.array.type_string() + "; they must have one rank",
                     location);
  }
  need_elements("take_along_axis", shape, dim, indices.array, location);
  return composed("take_along_axis", location, [&] {
    Array at = frontend::index_arrays("take_along_axis", {indices.array}, location)[0];
    // All dims except the axis broadcast.
    Dims from = shape.dims, to = at.shape();
    from[std::size_t(dim)] = to[std::size_t(dim)] = 1;
    const Dims common = frontend::broadcast_shapes("take_along_axis", from, to, location);
    Dims x_dims = common, at_dims = common;
    x_dims[std::size_t(dim)] = shape.dim(dim);
    at_dims[std::size_t(dim)] = at.shape()[std::size_t(dim)];
    const Array source = frontend::broadcasted(x.array, x_dims, location);
    at = frontend::broadcasted(at, at_dims, location);
    Array valid;
    const Array ready = prepared(at, shape.dim(dim), mode, location, valid);
    const std::vector<Array> operands{source, ready};
    const Array out =
        frontend::apply(ir::Opcode::gather, operands, ir::gather_along(rank, dim), location,
                        "take_along_axis", nullptr, nullptr, x.array.weak_type());
    if (!valid.valid()) return out;
    Dims mapping(std::size_t(rank), 0);
    std::iota(mapping.begin(), mapping.end(), 0);
    return frontend::filled(out, valid, mapping,
                            frontend::program_constant(frontend::fill_literal(shape.dtype)),
                            location, "take_along_axis");
  });
}

Array embedding_lookup(Operand table, Operand ids) {
  const Shape& shape = shape_of(table);
  if (shape.rank() != 2) {
    throw ShapeError("embedding_lookup in " + shape.to_string() +
                         "; the table must have two dims: rows and features",
                     table.location);
  }
  return take(table, ids, 0, TakeMode::clip);
}

}  // namespace tessera
