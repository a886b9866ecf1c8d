// SPDX-License-Identifier: Apache-2.0
// sum, max, mean, var, argmax and the other reductions.
#include <tessera/ops/reductions.h>

#include <cmath>
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/functions/associative_scan.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/identity.h"
#include "src/frontend/ops/internal.h"

namespace tessera {

using frontend::apply;
using frontend::as_one_program;
using frontend::constant;
using frontend::converted;
using internal::impl_of;
using ir::Opcode;

namespace {

Dims kept_dims(const Dims& dims, const Dims& reduced) {
  Dims out = dims;
  for (std::int64_t d : reduced) out[std::size_t(d)] = 1;
  return out;
}

std::int64_t reduced_count(const Dims& dims, const Dims& reduced) {
  std::int64_t n = 1;
  for (std::int64_t d : reduced) n *= dims[std::size_t(d)];
  return n;
}

Array reduce(Opcode op, const Array& x, const Dims& axes, bool keepdims, const Literal& init,
             Location location, const std::string& name) {
  return as_one_program(name, location, [&] {
    const Dims shape = x.shape();
    Array out = frontend::reduce_dims(op, x, axes, init, location, name);
    if (keepdims) out = frontend::reshaped(out, kept_dims(shape, axes), location);
    return std::vector<Array>{out};
  })[0];
}

/// The elements for which `where` is true, others replaced by a neutral one.
Array masked(const std::string& name, const Array& x, const std::optional<Array>& mask,
             const Literal& neutral, Location location) {
  if (!mask) return x;
  const Shape& shape = impl_of(*mask, location).shape;
  if (shape.dtype != DType::pred) {
    throw DTypeError(name + " with where " + mask->type_string() + "; valid are arrays of pred",
                     location);
  }
  if (frontend::broadcast_shapes(name, shape.dims, x.shape(), location) != x.shape()) {
    throw ShapeError(name + " of " + x.type_string() + " with where " + mask->type_string() +
                         ", which doesn't broadcast to its shape",
                     location);
  }
  return where({*mask, location}, {x, location}, {frontend::constant(neutral), location});
}
/// The initial value of a reduction, of the result's dtype.
Array started(Opcode op, const std::string& name, const Array& result,
              const std::optional<Array>& initial, Location location) {
  if (!initial) return result;
  if (!initial->shape(location).empty()) {
    throw ShapeError(name + " with initial " + initial->type_string() + "; it must be a scalar",
                     location);
  }
  return frontend::binary(op, converted(*initial, result.dtype(), location), result, location,
                          name);
}
/// The number of elements that count, of that dtype.
Array counted(const Operand& x, const Axes& axes, bool keepdims, const Array& mask, DType dtype) {
  ReduceOptions options;
  options.keepdims = keepdims;
  options.dtype = dtype;
  const Array all = frontend::broadcasted(mask, x.array.shape(), x.location);
  return sum({all, x.location}, axes, options);
}

/// The dtype of sums: integers of fewer than 32 bits are widened to 32, pred becomes s32.
DType sum_type(DType t) {
  if (t == DType::pred || (is_signed_integer(t) && byte_size(t) < 4)) return s32;
  return is_unsigned_integer(t) && byte_size(t) < 4 ? u32 : t;
}

Array accumulate(Opcode op, const Operand& x, const Axes& axes, const ReduceOptions& options,
                 const std::string& name) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  const DType t = options.dtype.value_or(sum_type(shape.dtype));
  return as_one_program(name, x.location, [&] {
    const Literal neutral = frontend::identity(op, t, name, x.location);
    const Array values =
        masked(name, converted(x.array, t, x.location), options.where, neutral, x.location);
    const Array out = reduce(op, values, dims, options.keepdims, neutral, x.location, name);
    return std::vector<Array>{started(op, name, out, options.initial, x.location)};
  })[0];
}

Array extreme(Opcode op, const Operand& x, const Axes& axes, const ExtremeOptions& options,
              const std::string& name) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  if (is_complex(shape.dtype)) throw DTypeError(name + " of complex numbers", x.location);
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  if (reduced_count(shape.dims, dims) == 0 && !options.initial) {
    throw ValueError(name + " over no elements (" + shape.to_string() + ") has no value",
                     x.location);
  }
  if (options.where && !options.initial) {
    throw ValueError(name + " with where has no value if that is false everywhere; give initial",
                     x.location);
  }
  const Literal neutral = *ir::identity_of(op, shape.dtype);
  return as_one_program(name, x.location, [&] {
    const Array values = masked(name, x.array, options.where, neutral, x.location);
    const Array out = reduce(op, values, dims, options.keepdims, neutral, x.location, name);
    return std::vector<Array>{started(op, name, out, options.initial, x.location)};
  })[0];
}
Array extreme(Opcode op, const Operand& x, const Axes& axes, bool keepdims,
              const std::string& name) {
  ExtremeOptions options;
  options.keepdims = keepdims;
  return extreme(op, x, axes, options, name);
}

Array logical_reduce(Opcode op, const Operand& x, const Axes& axes, const WhereOptions& options,
                     const std::string& name) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  return as_one_program(name, x.location, [&] {
    const Array p =
        shape.dtype == DType::pred ? x.array : not_equal(x, {constant(shape.dtype, 0), x.location});
    const Literal neutral = *ir::identity_of(op, DType::pred);
    return std::vector<Array>{reduce(op, masked(name, p, options.where, neutral, x.location), dims,
                                     options.keepdims, neutral, x.location, name)};
  })[0];
}
Array logical_reduce(Opcode op, const Operand& x, const Axes& axes, bool keepdims,
                     const std::string& name) {
  WhereOptions options;
  options.keepdims = keepdims;
  return logical_reduce(op, x, axes, options, name);
}

/// Reduces (value, index) pairs: the first of the best values wins, and NaN is better than any
/// number.
ir::Computation* arg_reducer(ir::Module* module, DType dtype, bool largest) {
  ir::Builder b(module->add_computation(largest ? "argmax" : "argmin"));
  const Shape value(dtype, {}), index(s32, {});
  ir::Instruction* v0 = b.parameter(0, value);
  ir::Instruction* i0 = b.parameter(1, index);
  ir::Instruction* v1 = b.parameter(2, value);
  ir::Instruction* i1 = b.parameter(3, index);
  ir::Instruction* better = b.compare(largest ? ir::Direction::gt : ir::Direction::lt, v0, v1);
  ir::Instruction* same = b.compare(ir::Direction::eq, v0, v1);
  if (is_floating(dtype)) {
    ir::Instruction* nan0 = b.compare(ir::Direction::ne, v0, v0);
    ir::Instruction* nan1 = b.compare(ir::Direction::ne, v1, v1);
    better =
        b.binary(Opcode::or_, better, b.binary(Opcode::and_, nan0, b.unary(Opcode::not_, nan1)));
    better =
        b.binary(Opcode::and_, better, b.binary(Opcode::or_, nan0, b.unary(Opcode::not_, nan1)));
    same = b.binary(Opcode::or_, same, b.binary(Opcode::and_, nan0, nan1));
  }
  ir::Instruction* earlier = b.compare(ir::Direction::lt, i0, i1);
  ir::Instruction* first = b.binary(Opcode::or_, better, b.binary(Opcode::and_, same, earlier));
  b.computation()->set_root(b.tuple({b.select(first, v0, v1), b.select(first, i0, i1)}));
  return b.computation();
}

Array arg_extreme(const Operand& x, std::optional<std::int64_t> axis, bool keepdims, bool largest) {
  const std::string name = largest ? "argmax" : "argmin";
  const Shape shape = impl_of(x.array, x.location).shape;
  if (is_complex(shape.dtype)) throw DTypeError(name + " of complex numbers", x.location);
  return as_one_program(name, x.location, [&] {
    Array values = x.array;
    std::int64_t dim = 0;
    if (axis) {
      dim = frontend::normalize_axis(name, *axis, shape.rank(), x.location);
    } else {
      values = frontend::reshaped(values, {shape.element_count()}, x.location);
    }
    const Dims dims = values.shape();
    if (dims[std::size_t(dim)] == 0) {
      throw ValueError(name + " over no elements (" + shape.to_string() + ") has no value",
                       x.location);
    }
    // The worst value with an index past the end: it loses against any element, also across
    // devices.
    const Literal worst =
        *ir::identity_of(largest ? Opcode::maximum : Opcode::minimum, shape.dtype);
    frontend::Trace& trace = *frontend::Trace::current();
    const std::vector<Array> operands{
        values, iota(s32, dims, dim, x.location),
        trace.wrap(trace.builder().constant(worst), false),
        trace.wrap(trace.builder().constant(
                       Literal::scalar(s32, std::numeric_limits<std::int32_t>::max())),
                   false)};
    Array out = frontend::apply_many(
        Opcode::reduce, operands, ir::DimensionsAttrs{{dim}}, x.location, name, nullptr,
        [&](ir::Module* m) {
          return std::vector<ir::Computation*>{arg_reducer(m, shape.dtype, largest)};
        })[1];
    if (keepdims) {
      out = frontend::reshaped(
          out, axis ? kept_dims(shape.dims, {dim}) : Dims(shape.dims.size(), 1), x.location);
    }
    return std::vector<Array>{out};
  })[0];
}

}  // namespace

Array sum(Operand x, Axes axes, const ReduceOptions& options) {
  return accumulate(Opcode::add, x, axes, options, "sum");
}
Array prod(Operand x, Axes axes, const ReduceOptions& options) {
  return accumulate(Opcode::multiply, x, axes, options, "prod");
}
Array max(Operand x, Axes axes, bool keepdims) {
  return extreme(Opcode::maximum, x, axes, keepdims, "max");
}
Array min(Operand x, Axes axes, bool keepdims) {
  return extreme(Opcode::minimum, x, axes, keepdims, "min");
}
Array max(Operand x, Axes axes, const ExtremeOptions& options) {
  return extreme(Opcode::maximum, x, axes, options, "max");
}
Array min(Operand x, Axes axes, const ExtremeOptions& options) {
  return extreme(Opcode::minimum, x, axes, options, "min");
}
Array any(Operand x, Axes axes, const WhereOptions& options) {
  return logical_reduce(Opcode::or_, x, axes, options, "any");
}
Array all(Operand x, Axes axes, const WhereOptions& options) {
  return logical_reduce(Opcode::and_, x, axes, options, "all");
}
Array any(Operand x, Axes axes, bool keepdims) {
  return logical_reduce(Opcode::or_, x, axes, keepdims, "any");
}
Array all(Operand x, Axes axes, bool keepdims) {
  return logical_reduce(Opcode::and_, x, axes, keepdims, "all");
}
Array argmax(Operand x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_extreme(x, axis, keepdims, true);
}
Array argmin(Operand x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_extreme(x, axis, keepdims, false);
}

Array mean(Operand x, Axes axes, const ReduceOptions& options) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes("mean", axes, shape.rank(), x.location);
  const DType result = options.dtype.value_or(frontend::to_inexact(shape.dtype));
  // Sums in half precision would lose too much accuracy: they are computed in f32, as in JAX.
  const DType work = is_floating(result) && byte_size(result) < 4 ? f32 : result;
  const double n = double(reduced_count(shape.dims, dims));
  if (options.initial) throw ValueError("mean has no initial value", x.location);
  return as_one_program("mean", x.location, [&] {
    const Literal zero = *ir::identity_of(Opcode::add, work);
    const Array values =
        masked("mean", converted(x.array, work, x.location), options.where, zero, x.location);
    const Array total =
        reduce(Opcode::add, values, dims, options.keepdims, zero, x.location, "mean");
    const Array count = options.where
                            ? counted(x, Axes(dims), options.keepdims, *options.where, work)
                            : constant(work, n);
    return std::vector<Array>{
        converted(divide({total, x.location}, {count, x.location}), result, x.location)};
  })[0];
}

Array var(Operand x, Axes axes, const VarOptions& options) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes("var", axes, shape.rank(), x.location);
  const DType t = frontend::to_inexact(shape.dtype);
  const DType work = is_floating(t) && byte_size(t) < 4 ? f32 : t;
  const double n = double(reduced_count(shape.dims, dims)) - options.ddof;
  return as_one_program("var", x.location, [&] {
    const Operand values{converted(x.array, work, x.location), x.location};
    ReduceOptions keep;
    keep.keepdims = true;
    keep.where = options.where;
    const Operand centred{subtract(values, {mean(values, Axes(dims), keep), x.location}),
                          x.location};
    const Array squares = is_complex(work)
                              ? real({multiply(centred, {conj(centred), x.location}), x.location})
                              : square(centred);
    const DType real = squares.dtype();
    const Literal zero = *ir::identity_of(Opcode::add, real);
    const Array counting = masked("var", squares, options.where, zero, x.location);
    const Array total =
        reduce(Opcode::add, counting, dims, options.keepdims, zero, x.location, "var");
    const Operand none{constant(real, std::numeric_limits<double>::quiet_NaN()), x.location};
    Array out;
    if (options.where) {
      const Operand rest{
          subtract({counted(x, Axes(dims), options.keepdims, *options.where, real), x.location},
                   {constant(real, options.ddof), x.location}),
          x.location};
      const Operand some{greater(rest, {constant(real, 0), x.location}), x.location};
      out = where(some, {divide({total, x.location}, rest), x.location}, none);
    } else {
      out = divide({total, x.location}, n > 0 ? Operand{constant(real, n), x.location} : none);
    }
    return std::vector<Array>{converted(out, real_type(t), x.location)};
  })[0];
}

Array stddev(Operand x, Axes axes, const VarOptions& options) {
  return as_one_program("std", x.location, [&] {
    return std::vector<Array>{sqrt({var(x, axes, options), x.location})};
  })[0];
}
Array std(Operand x, Axes axes, const VarOptions& options) { return stddev(x, axes, options); }

Array logsumexp(Operand x, Axes axes, bool keepdims) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes("logsumexp", axes, shape.rank(), x.location);
  const DType t = frontend::to_inexact(shape.dtype);
  return as_one_program("logsumexp", x.location, [&] {
    const Operand values{converted(x.array, t, x.location), x.location};
    const Operand high{max(values, Axes(dims), true), x.location};
    const Array finite = where({isfinite(high), x.location}, high, {constant(t, 0), x.location});
    // The result doesn't depend on the shift, so derivatives need not look at it.
    const Operand shift{stop_gradient({finite, x.location}), x.location};
    ReduceOptions keep;
    keep.keepdims = true;
    const Array total =
        sum({exp({subtract(values, shift), x.location}), x.location}, Axes(dims), keep);
    Array out = add({log({total, x.location}), x.location}, shift);
    if (!keepdims) {
      Dims rest;
      std::size_t next = 0;
      for (std::size_t d = 0; d < shape.dims.size(); ++d) {
        if (next < dims.size() && dims[next] == std::int64_t(d)) {
          ++next;
        } else {
          rest.push_back(shape.dims[d]);
        }
      }
      out = frontend::reshaped(out, rest, x.location);
    }
    return std::vector<Array>{out};
  })[0];
}

Array count_nonzero(Operand x, Axes axes, bool keepdims) {
  return as_one_program("count_nonzero", x.location, [&] {
    ReduceOptions options;
    options.keepdims = keepdims;
    const DType t = impl_of(x.array, x.location).shape.dtype;
    return std::vector<Array>{
        sum({not_equal(x, {constant(t, 0), x.location}), x.location}, axes, options)};
  })[0];
}

namespace {

Array cumulative(Opcode op, const Operand& x, std::optional<std::int64_t> axis,
                 const std::string& name) {
  const Shape shape = impl_of(x.array, x.location).shape;
  return as_one_program(name, x.location, [&] {
    // Unlike sums, prefix sums keep narrow types, as in JAX.
    Array values = converted(x.array, shape.dtype == DType::pred ? s32 : shape.dtype, x.location);
    std::int64_t dim = 0;
    if (axis) {
      dim = frontend::normalize_axis(name, *axis, shape.rank(), x.location);
    } else {
      values = frontend::reshaped(values, {shape.element_count()}, x.location);
    }
    const std::int64_t n = values.shape()[std::size_t(dim)];
    if (n == 0) return std::vector<Array>{values};
    ir::WindowAttrs window;
    window.dims.resize(values.shape().size());
    window.dims[std::size_t(dim)].size = n;
    window.dims[std::size_t(dim)].pad_low = n - 1;
    const DType t = values.dtype();
    frontend::Trace& trace = *frontend::Trace::current();
    const std::vector<Array> operands{
        values,
        trace.wrap(trace.builder().constant(frontend::identity(op, t, name, x.location)), false)};
    return std::vector<Array>{apply(
        Opcode::reduce_window, operands, window, x.location, name, nullptr, [&](ir::Module* m) {
          return std::vector<ir::Computation*>{ir::scalar_computation(m, op, t)};
        })};
  })[0];
}

}  // namespace

Array cumsum(Operand x, std::optional<std::int64_t> axis) {
  return cumulative(Opcode::add, x, axis, "cumsum");
}
Array cumprod(Operand x, std::optional<std::int64_t> axis) {
  return cumulative(Opcode::multiply, x, axis, "cumprod");
}

Array cummax(Operand x, std::optional<std::int64_t> axis) {
  if (is_complex(impl_of(x.array, x.location).shape.dtype)) {
    throw DTypeError("cummax of complex numbers", x.location);
  }
  return cumulative(Opcode::maximum, x, axis, "cummax");
}
Array cummin(Operand x, std::optional<std::int64_t> axis) {
  if (is_complex(impl_of(x.array, x.location).shape.dtype)) {
    throw DTypeError("cummin of complex numbers", x.location);
  }
  return cumulative(Opcode::minimum, x, axis, "cummin");
}
Array cumlogsumexp(Operand x, std::optional<std::int64_t> axis) {
  const Shape shape = impl_of(x.array, x.location).shape;
  const DType t = frontend::to_inexact(shape.dtype);
  if (is_complex(t)) throw DTypeError("cumlogsumexp of complex numbers", x.location);
  return as_one_program("cumlogsumexp", x.location, [&] {
    Array values = converted(x.array, t, x.location);
    std::int64_t dim = 0;
    if (axis) {
      dim = frontend::normalize_axis("cumlogsumexp", *axis, shape.rank(), x.location);
    } else {
      values = frontend::reshaped(values, {shape.element_count()}, x.location);
    }
    if (values.shape()[std::size_t(dim)] == 0) return std::vector<Array>{values};
    AssociativeScanOptions along;
    along.axis = dim;
    const Location l = x.location;
    return std::vector<Array>{associative_scan(
        [l](Array a, Array b) {
          return logaddexp({a, l}, {b, l});
        },
        values, along, l)};
  })[0];
}

Array allclose(Operand a, Operand b, double rtol, double atol) {
  const Location l = a.location;
  return as_one_program("allclose", l, [&] {
    const Operand difference{abs({subtract(a, b), l}), l};
    const Operand bound{add({multiply({abs(b), l}, {Array(rtol), l}), l}, {Array(atol), l}), l};
    // The difference of equal infinities is NaN, but they are close.
    const Array close = logical_or({less_equal(difference, bound), l}, {equal(a, b), l});
    return std::vector<Array>{all({close, l})};
  })[0];
}

}  // namespace tessera
