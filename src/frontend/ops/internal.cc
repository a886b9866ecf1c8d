// SPDX-License-Identifier: Apache-2.0
// What ops share: dtype promotion, broadcasting, axis checks, single-op staging.
#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/base/arrays/widen.h"
#include "src/frontend/ops/identity.h"
#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

using internal::impl_of;

Array converted(const Array& x, DType dtype, Location location, bool weak) {
  const internal::ArrayImpl& impl = impl_of(x, location);
  if (impl.shape.dtype == dtype && impl.weak == weak) return x;
  if (impl.kind == internal::ArrayImpl::Kind::host_scalar) {
    const bool wide = dtype == DType::f64 || dtype == DType::c128;
    const Literal from = widened(wide && impl.precise ? *impl.precise : *impl.literal);
    Literal to(Shape(wide_dtype(dtype), from.dims()));
    dispatch_dtype(from.dtype(), [&](auto from_tag) {
      using From = typename decltype(from_tag)::type;
      const From value = from.data<From>()[0];
      dispatch_dtype(to.dtype(), [&](auto to_tag) {
        using To = typename decltype(to_tag)::type;
        to.mutable_data<To>()[0] = convert_element<To>(value);
      });
    });
    to = narrowed(to, dtype);
    auto scalar = std::make_shared<internal::ArrayImpl>();
    scalar->kind = internal::ArrayImpl::Kind::host_scalar;
    scalar->shape = to.shape();
    scalar->literal = std::move(to);
    scalar->weak = weak;
    if (weak) scalar->precise = impl.precise;
    return Array(std::move(scalar));
  }
  if (impl.shape.dtype == dtype) {
    // Only the weak type changes: returns another handle on the same value.
    auto same = std::make_shared<internal::ArrayImpl>(impl);
    same->weak = weak;
    return Array(std::move(same));
  }
  const Shape shape(dtype, impl.shape.dims);
  const std::vector<Array> operands{x};
  return apply(ir::Opcode::convert, operands, {}, location, "convert", &shape, nullptr, weak);
}

Dims broadcast_shapes(const std::string& op, const Dims& a, const Dims& b, Location location) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ShapeError(op + ": shapes " + to_string(a) + " and " + to_string(b) +
                           " don't broadcast: counted from the end, dim " + std::to_string(i + 1) +
                           " has sizes " + std::to_string(x) + " and " + std::to_string(y) +
                           "; they must be equal or one of them 1",
                       location);
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Array broadcasted(const Array& x, const Dims& dims, Location location) {
  const Dims& from = x.shape();
  if (from == dims) return x;
  // Dims of size 1 that are expanded are removed first: HLO's broadcast doesn't expand dims.
  Dims kept, mapped;
  const std::size_t offset = dims.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == dims[d + offset]) {
      kept.push_back(from[d]);
      mapped.push_back(std::int64_t(d + offset));
    }
  }
  const Array squeezed = kept.size() == from.size() ? x : reshaped(x, kept, location);
  const Shape shape(x.dtype(), dims);
  check_size("broadcast", shape, location);
  const std::vector<Array> operands{squeezed};
  return apply(ir::Opcode::broadcast, operands, ir::DimensionsAttrs{mapped}, location, "broadcast",
               &shape, nullptr, x.weak_type());
}

std::vector<Array> promoted(const std::string& op, const std::vector<Array>& operands,
                            Location location) {
  for (const Array& x : operands) (void)impl_of(x, location);
  const TypeNode type = promote(operands, location);
  Dims dims = operands[0].shape();
  for (const Array& x : operands) dims = broadcast_shapes(op, dims, x.shape(), location);
  std::vector<Array> out;
  for (const Array& x : operands) {
    out.push_back(broadcasted(converted(x, type.dtype, location, type.weak), dims, location));
  }
  return out;
}

Array unary(ir::Opcode op, const Array& x, Location location, const std::string& name) {
  const std::vector<Array> operands{x};
  return apply(op, operands, {}, location, name, nullptr, nullptr, impl_of(x, location).weak);
}

Array binary(ir::Opcode op, const Array& a, const Array& b, Location location,
             const std::string& name) {
  return as_one_program(name, location, [&] {
    const std::vector<Array> operands = promoted(name, {a, b}, location);
    const bool weak = operands[0].weak_type() && operands[1].weak_type();
    return std::vector<Array>{apply(op, operands, {}, location, name, nullptr, nullptr, weak)};
  })[0];
}

Array constant(const Literal& value) {
  auto impl = std::make_shared<internal::ArrayImpl>();
  impl->kind = internal::ArrayImpl::Kind::host_scalar;
  impl->literal = value;
  impl->shape = value.shape();
  return Array(std::move(impl));
}
Array constant(DType dtype, double value) {
  return constant(is_small_float(dtype) ? small_float_scalar(dtype, value)
                                        : Literal::scalar(dtype, value));
}

Literal identity(ir::Opcode reducer, DType dtype, const std::string& op, Location location) {
  if (std::optional<Literal> found = ir::identity_of(reducer, dtype)) return *std::move(found);
  throw DTypeError(op + " of " + std::string(tessera::name(dtype)) +
                       ", which has no number to start from; valid: types with a zero, as f32",
                   location);
}

std::int64_t normalize_axis(const std::string& op, std::int64_t axis, std::int64_t rank,
                            Location location) {
  if (axis < -rank || axis >= rank) {
    throw ValueError(
        op + ": axis " + std::to_string(axis) + " of an array of rank " + std::to_string(rank) +
            (rank == 0
                 ? "; a scalar has no axes"
                 : "; valid are " + std::to_string(-rank) + " to " + std::to_string(rank - 1)),
        location);
  }
  return axis < 0 ? axis + rank : axis;
}

Dims normalize_axes(const std::string& op, const Axes& axes, std::int64_t rank, Location location) {
  Dims out;
  if (axes.all()) {
    for (std::int64_t d = 0; d < rank; ++d) out.push_back(d);
    return out;
  }
  for (std::int64_t a : axes.list()) out.push_back(normalize_axis(op, a, rank, location));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    throw ValueError(op + ": axes " + to_string(axes.list()) + " name one axis twice", location);
  }
  return out;
}

void check_size(const std::string& op, const Shape& shape, Location location) {
  std::int64_t bytes = std::int64_t(byte_size(shape.dtype));
  bool empty = false, fits = true;
  for (const std::int64_t d : shape.dims) {
    if (d < 0) throw ShapeError(op + ": negative size in " + shape.to_string(), location);
    empty = empty || d == 0;
    fits = fits && !__builtin_mul_overflow(bytes, d, &bytes);
  }
  if (fits || empty) return;
  throw ShapeError(op + ": " + shape.to_string() + " has more bytes than a 64-bit number holds",
                   location);
}

std::int64_t multiply_sizes(const std::string& op, std::int64_t a, std::int64_t b,
                            Location location) {
  std::int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  throw ShapeError(op + ": a size of " + std::to_string(a) + " times " + std::to_string(b) +
                       " is more than a 64-bit number holds",
                   location);
}

Array reshaped(const Array& x, const Dims& dims, Location location) {
  if (x.shape() == dims) return x;
  const Shape shape(x.dtype(), dims);
  const std::vector<Array> operands{x};
  return apply(ir::Opcode::reshape, operands, {}, location, "reshape", &shape, nullptr,
               x.weak_type());
}

Array reduce_dims(ir::Opcode reducer, const Array& x, const Dims& dims, const Literal& init,
                  Location location, const std::string& name) {
  const DType dtype = x.dtype();
  return as_one_program(name, location, [&] {
    Trace& trace = *Trace::current();
    const std::vector<Array> operands{x, trace.wrap(trace.builder().constant(init), false)};
    return std::vector<Array>{apply(ir::Opcode::reduce, operands, ir::DimensionsAttrs{dims},
                                    location, name, nullptr, [&](ir::Module* module) {
                                      return std::vector<ir::Computation*>{
                                          ir::scalar_computation(module, reducer, dtype)};
                                    })};
  })[0];
}

Array program_constant(const Literal& value, bool weak) {
  Trace* trace = Trace::current();
  TESSERA_CHECK(trace, "a constant of a program outside of a trace");
  return trace->wrap(trace->builder().constant(value), weak);
}
Array program_constant(DType dtype, double value) {
  return program_constant(is_small_float(dtype) ? small_float_scalar(dtype, value)
                                                : Literal::scalar(dtype, value));
}

}  // namespace tessera::frontend
