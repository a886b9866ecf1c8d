// SPDX-License-Identifier: Apache-2.0
// Reductions over windows, by functions of the user and for pooling.
#include <tessera/ops/pooling.h>

#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/identity.h"
#include "src/frontend/ops/nn/windows.h"
#include "src/frontend/trace/nesting.h"
#include "src/ir/cloner.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using internal::impl_of;
using ir::Opcode;

namespace {

/// The windows of an array with an entry per dim.
ir::WindowAttrs windows_of(const std::string& op, const Dims& sizes, const Dims& window,
                           const WindowOptions& options, Location location) {
  const std::size_t rank = sizes.size();
  if (window.size() != rank) {
    throw ShapeError(op + ": a window of " + std::to_string(window.size()) +
                         " dimensions on an array of shape " + to_string(sizes) +
                         "; give a size for each dimension",
                     location);
  }
  const Dims each = rank == 0 ? window : frontend::per_dim(op, "window", window, rank, location);
  const Dims by = frontend::per_dim(op, "strides", options.strides, rank, location);
  const Dims spread = frontend::per_dim(op, "base_dilation", options.base_dilation, rank, location);
  const Dims holes =
      frontend::per_dim(op, "window_dilation", options.window_dilation, rank, location);
  Dims reach;
  for (std::size_t d = 0; d < rank; ++d) {
    reach.push_back(frontend::dilated_size(op, each[d], holes[d], location));
  }
  const Padding::Pairs pairs =
      frontend::padding_pairs(op, options.padding, sizes, reach, by, location);
  return {frontend::window_dims(op, sizes, each, by, pairs, spread, holes, location)};
}

/// The user's function of two lists of scalars, as a computation of the module.
ir::Computation* traced_reducer(frontend::Trace& outer, const std::string& op,
                                const internal::FlatReducer& f, const std::vector<Array>& init,
                                Location location) {
  const frontend::Nested nested(op + ".reducer", location);
  frontend::Trace inner(op + ".reducer", &outer);
  inner.forbid_captures("the function of " + op + ", which sees the two scalars only");
  std::vector<Array> sides[2];
  for (std::vector<Array>& side : sides) {
    for (const Array& i : init) side.push_back(inner.add_parameter({Shape(i.dtype(), {})}));
  }
  std::vector<Array> results;
  ir::Computation* flat = nullptr;
  {
    const frontend::ActiveTrace active(&inner);
    results = f(sides[0], sides[1]);
    bool fits = results.size() == init.size();
    for (std::size_t i = 0; fits && i < init.size(); ++i) {
      const Shape& have = impl_of(results[i], location).shape;
      if (results[i].weak_type() && have.dims.empty()) {
        results[i] = frontend::converted(results[i], init[i].dtype(), location);
      }
      fits = impl_of(results[i], location).shape == Shape(init[i].dtype(), {});
    }
    if (!fits) {
      const auto types = [](const std::vector<Array>& xs) {
        std::string out;
        for (const Array& x : xs) out += (out.empty() ? "" : ", ") + x.type_string();
        return out;
      };
      throw TypeError(op + ": the function must return " + types(sides[0]) + ", and it returns " +
                          types(results),
                      location);
    }
    flat = inner.finish(results, location);
  }
  // The same with a single result instead of a tuple of one.
  ir::Builder b(outer.module()->add_computation(op + ".reducer"));
  std::vector<ir::Instruction*> parameters;
  for (const ir::Instruction* p : flat->parameters()) {
    parameters.push_back(b.parameter(std::int64_t(parameters.size()), p->shape));
  }
  const std::vector<ir::Instruction*> roots =
      ir::inline_computation(b.computation(), *flat, parameters)->operands();
  b.computation()->set_root(roots.size() == 1 ? roots[0] : b.tuple(roots));
  return b.computation();
}

/// ShapeError or DTypeError unless arrays have one shape, which is returned, and initial values are
/// scalars of their dtypes.
Dims check_reduced(const std::string& op, const std::vector<Array>& arrays,
                   const std::vector<Array>& init, Location location) {
  if (arrays.empty() || arrays.size() != init.size()) {
    throw ValueError(op + " of " + std::to_string(arrays.size()) + " arrays with " +
                         std::to_string(init.size()) +
                         " initial values; give one or more arrays and a value for each",
                     location);
  }
  const Dims& sizes = impl_of(arrays[0], location).shape.dims;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Shape &x = impl_of(arrays[i], location).shape, &first = impl_of(init[i], location).shape;
    if (x.dims != sizes) {
      throw ShapeError(op + " of arrays of shapes " + to_string(sizes) + " and " +
                           to_string(x.dims) + "; all must have one shape",
                       location);
    }
    if (!first.dims.empty()) {
      throw ShapeError(op + ": the initial value " + first.to_string() + " must be a scalar",
                       location);
    }
    if (first.dtype != x.dtype && !init[i].weak_type()) {
      throw DTypeError(op + " of " + x.to_string() + ": the initial value " + first.to_string() +
                           " must have its dtype",
                       location);
    }
  }
  return sizes;
}

/// Operands of a reduction, initial values last, and these alone.
std::pair<std::vector<Array>, std::vector<Array>> with_initial(const std::vector<Array>& arrays,
                                                               const std::vector<Array>& init,
                                                               Location location) {
  std::vector<Array> operands, first;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    operands.push_back(frontend::converted(arrays[i], arrays[i].dtype(), location));
    first.push_back(frontend::converted(init[i], arrays[i].dtype(), location));
  }
  operands.insert(operands.end(), first.begin(), first.end());
  return {operands, first};
}

}  // namespace

namespace internal {

std::vector<Array> reduce_window_core(const FlatReducer& f, const std::vector<Array>& arrays,
                                      const std::vector<Array>& init,
                                      const std::vector<std::int64_t>& window,
                                      const WindowOptions& options, Location location) {
  const std::string op = "reduce_window";
  const Dims sizes = check_reduced(op, arrays, init, location);
  const ir::WindowAttrs attrs = windows_of(op, sizes, window, options, location);
  return frontend::as_one_program(op, location, [&] {
    const auto [operands, first] = with_initial(arrays, init, location);
    frontend::Trace& trace = *frontend::Trace::current();
    ir::Computation* reducer = traced_reducer(trace, op, f, first, location);
    return frontend::apply_many(
        Opcode::reduce_window, operands, attrs, location, op, nullptr,
        [&](ir::Module*) { return std::vector<ir::Computation*>{reducer}; });
  });
}

std::vector<Array> reduce_core(const FlatReducer& f, const std::vector<Array>& arrays,
                               const std::vector<Array>& init, const Axes& axes,
                               Location location) {
  const std::string op = "reduce";
  const Dims sizes = check_reduced(op, arrays, init, location);
  const Dims dims = frontend::normalize_axes(op, axes, std::int64_t(sizes.size()), location);
  return frontend::as_one_program(op, location, [&] {
    const auto [operands, first] = with_initial(arrays, init, location);
    frontend::Trace& trace = *frontend::Trace::current();
    ir::Computation* reducer = traced_reducer(trace, op, f, first, location);
    return frontend::apply_many(
        Opcode::reduce, operands, ir::DimensionsAttrs{dims}, location, op, nullptr,
        [&](ir::Module*) { return std::vector<ir::Computation*>{reducer}; });
  });
}

}  // namespace internal

namespace {

/// The window of a pooling on [batch.., dims.., features].
ir::WindowAttrs pool_windows(const std::string& op, const Shape& x, const Dims& window,
                             const PoolOptions& options, Location location) {
  if (x.dims.size() < window.size() + 1 || window.empty()) {
    throw ShapeError(op + " of " + x.to_string() + " with a window of " +
                         std::to_string(window.size()) +
                         " dimensions; the array is [batch.., a dimension for each of the "
                         "window's, features]",
                     location);
  }
  const std::size_t batch = x.dims.size() - window.size() - 1;
  const auto within = [&](Dims given) {
    given.insert(given.begin(), batch, 1);
    given.push_back(1);
    return given;
  };
  WindowOptions all;
  all.strides = within(frontend::per_dim(op, "strides", options.strides, window.size(), location));
  all.padding = options.padding;
  if (!options.padding.is_text()) {
    Padding::Pairs pairs = frontend::padding_pairs(op, options.padding, window, {}, {}, location);
    pairs.insert(pairs.begin(), batch, {0, 0});
    pairs.emplace_back(0, 0);
    all.padding = Padding(pairs);
  }
  return windows_of(op, x.dims, within(window), all, location);
}

/// A reduction by one op that begins with its identity.
Array pooled(Opcode reducer, const Array& x, const ir::WindowAttrs& attrs, Location location,
             const std::string& op) {
  const DType t = x.dtype();
  const std::vector<Array> operands{
      x, frontend::program_constant(frontend::identity(reducer, t, op, location))};
  return frontend::apply(
      Opcode::reduce_window, operands, attrs, location, op, nullptr, [&](ir::Module* m) {
        return std::vector<ir::Computation*>{ir::scalar_computation(m, reducer, t)};
      });
}

Array extreme_pool(const std::string& op, Opcode reducer, const Operand& x, const Dims& window,
                   const PoolOptions& options) {
  const Shape& shape = shape_of(x);
  if (is_complex(shape.dtype)) throw DTypeError(op + " of complex numbers", x.location);
  const ir::WindowAttrs attrs = pool_windows(op, shape, window, options, x.location);
  return composed(op, x.location, [&] { return pooled(reducer, x.array, attrs, x.location, op); });
}

}  // namespace

Array max_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options) {
  return extreme_pool("max_pool", Opcode::maximum, x, window, options);
}
Array min_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options) {
  return extreme_pool("min_pool", Opcode::minimum, x, window, options);
}

Array avg_pool(Operand x, std::vector<std::int64_t> window, const PoolOptions& options) {
  const Shape shape = shape_of(x);
  const Location l = x.location;
  const ir::WindowAttrs attrs = pool_windows("avg_pool", shape, window, options, l);
  const DType t = frontend::to_inexact(shape.dtype);
  return composed("avg_pool", l, [&] {
    const Array values = frontend::converted(x.array, t, l);
    const Operand total{pooled(Opcode::add, values, attrs, l, "avg_pool"), l};
    if (options.count_include_pad) {
      double count = 1;
      for (std::int64_t size : window) count *= double(size);
      return divide(total, {frontend::program_constant(t, count), l});
    }
    // How many elements each place has: the same for all of the batch and all features.
    Dims counted = shape.dims;
    std::fill(counted.begin(), counted.end() - std::ptrdiff_t(window.size() + 1), 1);
    counted.back() = 1;
    const DType exact = byte_size(t) < 4 ? f32 : t;
    const Array counts = pooled(Opcode::add, ones(counted, exact, l), attrs, l, "avg_pool");
    return divide(total, {frontend::converted(counts, t, l), l});
  });
}

}  // namespace tessera
