// SPDX-License-Identifier: Apache-2.0
// sum, max, mean, var, argmax and the other reductions.
#include <tessera/ops/reductions.h>

#include <cmath>
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/literal_util.h"
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
    return std::vector<Array>{reduce(op, converted(x.array, t, x.location), dims, options.keepdims,
                                     *ir::identity_of(op, t), x.location, name)};
  })[0];
}

Array extreme(Opcode op, const Operand& x, const Axes& axes, bool keepdims,
              const std::string& name) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  if (is_complex(shape.dtype)) throw DTypeError(name + " of complex numbers", x.location);
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  if (reduced_count(shape.dims, dims) == 0) {
    throw ValueError(name + " over no elements (" + shape.to_string() + ") has no value",
                     x.location);
  }
  return reduce(op, x.array, dims, keepdims, *ir::identity_of(op, shape.dtype), x.location, name);
}

Array logical_reduce(Opcode op, const Operand& x, const Axes& axes, bool keepdims,
                     const std::string& name) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  return as_one_program(name, x.location, [&] {
    const Array p =
        shape.dtype == DType::pred ? x.array : not_equal(x, {constant(shape.dtype, 0), x.location});
    return std::vector<Array>{
        reduce(op, p, dims, keepdims, *ir::identity_of(op, DType::pred), x.location, name)};
  })[0];
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
  const DType work = result == f16 || result == bf16 ? f32 : result;
  const double n = double(reduced_count(shape.dims, dims));
  return as_one_program("mean", x.location, [&] {
    const Array total =
        reduce(Opcode::add, converted(x.array, work, x.location), dims, options.keepdims,
               *ir::identity_of(Opcode::add, work), x.location, "mean");
    return std::vector<Array>{converted(
        divide({total, x.location}, {constant(work, n), x.location}), result, x.location)};
  })[0];
}

Array var(Operand x, Axes axes, const VarOptions& options) {
  const Shape& shape = impl_of(x.array, x.location).shape;
  const Dims dims = frontend::normalize_axes("var", axes, shape.rank(), x.location);
  const DType t = frontend::to_inexact(shape.dtype);
  const DType work = t == f16 || t == bf16 ? f32 : t;
  const double n = double(reduced_count(shape.dims, dims)) - options.ddof;
  return as_one_program("var", x.location, [&] {
    const Operand values{converted(x.array, work, x.location), x.location};
    ReduceOptions keep;
    keep.keepdims = true;
    const Operand centred{subtract(values, {mean(values, Axes(dims), keep), x.location}),
                          x.location};
    const Array squares = is_complex(work)
                              ? real({multiply(centred, {conj(centred), x.location}), x.location})
                              : square(centred);
    const Array total = reduce(Opcode::add, squares, dims, options.keepdims,
                               *ir::identity_of(Opcode::add, squares.dtype()), x.location, "var");
    return std::vector<Array>{
        converted(divide({total, x.location}, {constant(squares.dtype(), n), x.location}),
                  real_type(t), x.location)};
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
        values, trace.wrap(trace.builder().constant(*ir::identity_of(op, t)), false)};
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
