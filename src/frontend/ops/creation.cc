// SPDX-License-Identifier: Apache-2.0
// Ops that make arrays: zeros, full, arange, linspace, eye, tri.
#include <tessera/ops/creation.h>

#include <fmt/format.h>
#include <tessera/collectives.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/base/at_location.h"
#include "src/base/machine_memory.h"
#include "src/frontend/ops/internal.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/trace/explicit_values.h"

#include <tessera/ops/elementwise.h>

namespace tessera {

using frontend::as_one_program;
using frontend::constant;
using frontend::converted;
using internal::impl_of;

namespace internal {

Array array_from_host(DType dtype, std::vector<std::int64_t> shape, const void* data,
                      std::size_t count, std::optional<DType> as, Location location) {
  const Shape have(dtype, std::move(shape));
  frontend::check_size("array", have, location);
  if (std::int64_t(count) != have.element_count()) {
    throw ShapeError("array: " + std::to_string(count) + " values for shape " +
                         tessera::to_string(have.dims) + ", which has " +
                         std::to_string(have.element_count()),
                     location);
  }
  const Literal literal(have,
                        std::span(static_cast<const std::byte*>(data), count * byte_size(dtype)));
  const Array made = frontend::from_literal(literal);
  return as && *as != dtype ? converted(made, *as, location) : made;
}

}  // namespace internal

namespace {

/// Outside of traces arrays are made on the host, without compiling a program.
Array host_filled(const Shape& shape, const Literal& scalar) {
  Literal out(shape);
  const std::size_t element = byte_size(shape.dtype);
  std::byte* bytes = out.mutable_bytes();
  for (std::size_t i = 0; i < out.byte_count(); i += element) {
    std::memcpy(bytes + i, scalar.bytes(), element);
  }
  return frontend::from_literal(out);
}

Array filled(const Dims& dims, DType dtype, const Array& value, Location location) {
  const Shape shape(dtype, dims);
  frontend::check_size("full", shape, location);
  const Array scalar = converted(value, dtype, location);
  const Literal* known = frontend::constant_value(scalar);
  if (!frontend::Trace::current() && known) {
    try {
      return host_filled(shape, *known);
    } catch (const RuntimeError& e) {
      throw RuntimeError(shape.to_string() + " can't be made: " + e.message(), location);
    }
  }
  if (!scalar.shape().empty()) {
    throw ShapeError("full: the value must be a scalar, got " + scalar.type_string(), location);
  }
  return frontend::broadcasted(scalar, dims, location);
}

Array placed_like(const Array& made, const Array& like, Location location) {
  if (frontend::Trace::current() || like.is_tracer() || !like.committed()) return made;
  const Sharding where = like.sharding(location);
  return internal::make_device_array(
      Shape(made.dtype(), made.shape()), where,
      frontend::place_literal(frontend::to_literal(made, location), where, location), true, false);
}

/// In code per device: varying over the axes over which `like` varies, as values made from it
/// would.
Array varying_like(const Array& made, const Array& like, Location location) {
  const std::vector<std::string> axes = varying_axes(like);
  return axes.empty() ? made : pvary({made, location}, axes);
}

/// In explicit mode: sharded as `like` in its type, but whole.
Array typed_like(const Array& made, const Array& like, Location location) {
  if (!frontend::Trace::current()) return made;
  frontend::ShardingType type = frontend::sharding_type_of(like);
  type.unreduced.clear();
  return frontend::with_sharding_type(made, type, location);
}

}  // namespace

Array zeros(std::vector<std::int64_t> shape, DType dtype, Location location) {
  return filled(shape, dtype, constant(dtype, 0), location);
}
Array ones(std::vector<std::int64_t> shape, DType dtype, Location location) {
  return filled(shape, dtype, constant(dtype, 1), location);
}
Array full(std::vector<std::int64_t> shape, Operand value, std::optional<DType> dtype) {
  return filled(shape, dtype.value_or(impl_of(value.array, value.location).shape.dtype),
                value.array, value.location);
}
Array full_like(Operand x, Operand value, std::optional<DType> dtype) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Array made = filled(shape.dims, dtype.value_or(shape.dtype), value.array, x.location);
  const Array placed = placed_like(made, x.array, x.location);
  return typed_like(varying_like(placed, x.array, x.location), x.array, x.location);
}
Array zeros_like(Operand x, std::optional<DType> dtype) {
  const DType t = dtype.value_or(impl_of(x.array, x.location).shape.dtype);
  return full_like(x, {constant(t, 0), x.location}, t);
}
Array ones_like(Operand x, std::optional<DType> dtype) {
  const DType t = dtype.value_or(impl_of(x.array, x.location).shape.dtype);
  return full_like(x, {constant(t, 1), x.location}, t);
}

Array iota(DType dtype, std::vector<std::int64_t> dims, std::int64_t dim, Location location) {
  dim = frontend::normalize_axis("iota", dim, std::int64_t(dims.size()), location);
  const Shape shape(dtype, std::move(dims));
  frontend::check_size("iota", shape, location);
  return frontend::apply(ir::Opcode::iota, {}, ir::IotaAttrs{dim}, location, "iota", &shape);
}

Array arange(double stop, std::optional<DType> dtype, Location location) {
  return arange(0, stop, 1, dtype, location);
}
Array arange(double start, double stop, double step, std::optional<DType> dtype,
             Location location) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    throw ValueError(fmt::format("arange({}, {}, {}): the step must not be 0, and all finite",
                                 start, stop, step),
                     location);
  }
  const bool integers =
      start == std::trunc(start) && stop == std::trunc(stop) && step == std::trunc(step);
  const DType t = dtype.value_or(integers ? s32 : f32);
  const double count = std::max(0.0, std::ceil((stop - start) / step));
  if (count > 1e15)
    throw ValueError(fmt::format("arange({}, {}, {}) of {} numbers; give at most 1e15", start, stop,
                                 step, count),
                     location);
  return as_one_program("arange", location, [&] {
    Array x = iota(t, {std::int64_t(count)}, 0, location);
    if (step != 1) x = multiply({x, location}, {constant(t, step), location});
    if (start != 0) x = add({x, location}, {constant(t, start), location});
    return std::vector<Array>{x};
  })[0];
}

Array linspace(double start, double stop, std::int64_t count, DType dtype, bool endpoint,
               Location location) {
  if (count < 0) throw ValueError("linspace of " + std::to_string(count) + " numbers", location);
  const std::int64_t steps = endpoint ? count - 1 : count;
  frontend::check_size("linspace", Shape(DType::f64, {count}), location);
  std::vector<double> values;
  at_location(location, [&] {
    const std::size_t bytes = std::size_t(count) * sizeof(double);
    if (bytes > machine_memory()) refuse_array_of(bytes);
    values.reserve(std::size_t(count));
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const double t = steps == 0 ? 0.0 : double(i) / double(steps);
    values.push_back(endpoint && i == steps && steps > 0 ? stop : start * (1 - t) + stop * t);
  }
  return frontend::from_literal(make_literal(dtype, {count}, values));
}

Array eye(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype,
          Location location) {
  const Dims dims{rows, columns.value_or(rows)};
  if (dims[0] < 0 || dims[1] < 0) throw ShapeError("eye of shape " + to_string(dims), location);
  return as_one_program("eye", location, [&] {
    const Array row = iota(s32, dims, 0, location), column = iota(s32, dims, 1, location);
    const Array shifted = add({row, location}, {constant(s32, double(k)), location});
    return std::vector<Array>{
        converted(equal({shifted, location}, {column, location}), dtype, location)};
  })[0];
}

Array tri(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype,
          Location location) {
  const Dims dims{rows, columns.value_or(rows)};
  if (dims[0] < 0 || dims[1] < 0) throw ShapeError("tri of shape " + to_string(dims), location);
  return as_one_program("tri", location, [&] {
    const Array row = iota(s32, dims, 0, location), column = iota(s32, dims, 1, location);
    const Array shifted = add({row, location}, {constant(s32, double(k)), location});
    return std::vector<Array>{
        converted(greater_equal({shifted, location}, {column, location}), dtype, location)};
  })[0];
}

namespace {

Array triangle(const Operand& x, std::int64_t k, bool lower) {
  const char* op = lower ? "tril" : "triu";
  const Shape& shape = impl_of(x.array, x.location).shape;
  if (shape.rank() < 2) {
    throw ShapeError(std::string(op) + " needs rank 2 or more, got " + shape.to_string(),
                     x.location);
  }
  return as_one_program(op, x.location, [&] {
    const Dims plane{shape.dims[shape.dims.size() - 2], shape.dims.back()};
    const Operand row{iota(s32, plane, 0, x.location), x.location};
    const Operand column{iota(s32, plane, 1, x.location), x.location};
    const double offset = double(lower ? k : k - 1);
    const Operand shifted{add(row, {constant(s32, offset), x.location}), x.location};
    const Array below = greater_equal(shifted, column);
    const Operand zero{constant(shape.dtype, 0), x.location};
    return std::vector<Array>{lower ? where({below, x.location}, x, zero)
                                    : where({below, x.location}, zero, x)};
  })[0];
}

}  // namespace

Array tril(Operand x, std::int64_t k) { return triangle(x, k, true); }
Array triu(Operand x, std::int64_t k) { return triangle(x, k, false); }

}  // namespace tessera
