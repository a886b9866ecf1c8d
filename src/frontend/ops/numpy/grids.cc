// SPDX-License-Identifier: Apache-2.0
// Spaced numbers, coordinates of grids, positions in arrays, window functions.
#include <tessera/ops/grids.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <tessera/ops/creation.h>
#include <tessera/ops/numeric.h>
#include <tessera/ops/sets.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/special.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::as_one_program;
using frontend::as_type;
using frontend::composed;
using frontend::Located;
using frontend::program_constant;
using frontend::shape_of;
using internal::impl_of;

namespace {

/// Two bounds in the dtype in which numbers between them are computed.
struct Bounds {
  Located start, stop;
  DType result;
  Dims dims;  ///< broadcast
};

Bounds bounds_of(const std::string& name, const Operand& start, const Operand& stop,
                 std::int64_t count, const SpaceOptions& options) {
  const Location l = frontend::where_of(start, stop);
  if (count < 0) {
    throw ValueError(name + " of " + std::to_string(count) + " numbers; give 0 or more", l);
  }
  const DType common = frontend::promote({start.array, stop.array}, l).dtype;
  const DType result = options.dtype.value_or(frontend::to_inexact(common));
  const DType work = frontend::to_inexact(result);
  if (is_complex(common) && !is_complex(work)) {
    throw DTypeError(name + " of " + std::string(tessera::name(common)) + " as " +
                         std::string(tessera::name(result)) + "; take `real` of the bounds first",
                     l);
  }
  const Dims dims = frontend::broadcast_shapes(name, shape_of(start).dims, shape_of(stop).dims, l);
  return {{frontend::converted(start.array, work, l), l},
          {frontend::converted(stop.array, work, l), l},
          result,
          dims};
}

/// [count, dims..], in the bounds' dtype.
Located spaced(const Bounds& b, std::int64_t count, bool endpoint) {
  const Location l = b.start.location;
  Dims dims = b.dims;
  dims.insert(dims.begin(), count);
  const Located stop = b.stop.with(frontend::broadcasted(b.stop.array, b.dims, l));
  if (count == 0)
    return stop.with(frontend::broadcasted(program_constant(stop.dtype(), 0), dims, l));
  const std::int64_t steps = endpoint ? count - 1 : count;
  Dims one = b.dims, along(dims.size(), 1);
  one.insert(one.begin(), 1);
  const Located low =
      b.start.with(frontend::reshaped(frontend::broadcasted(b.start.array, b.dims, l), one, l));
  if (steps == 0) return low;
  const Located high = stop.with(frontend::reshaped(stop.array, one, l));
  along[0] = steps;
  Located step = low.with(iota(real_type(low.dtype()), along, 0, l));
  step = as_type(step / double(steps), low.dtype());
  const Located inner = low * (1.0 - step) + high * step;
  return endpoint ? low.with(frontend::concatenated({inner.array, high.array}, 0, l, "linspace"))
                  : inner;
}

Array placed(const Located& x, DType result, std::int64_t dim) {
  Located y = x;
  if (is_integer(result) && !is_integer(x.dtype())) y = x.with(floor(Operand(x)));
  return frontend::moved_dim(as_type(y, result).array, 0, dim, x.location);
}

}  // namespace

Array linspace(Operand start, Operand stop, std::int64_t count, const SpaceOptions& options) {
  return composed("linspace", frontend::where_of(start, stop), [&] {
    const Bounds b = bounds_of("linspace", start, stop, count, options);
    const std::int64_t dim = frontend::normalize_axis(
        "linspace", options.axis, std::int64_t(b.dims.size()) + 1, b.start.location);
    return placed(spaced(b, count, options.endpoint), b.result, dim);
  });
}

Array logspace(Operand start, Operand stop, std::int64_t count, const SpaceOptions& options,
               Operand base) {
  return composed("logspace", frontend::where_of(start, stop), [&] {
    const Bounds b = bounds_of("logspace", start, stop, count, options);
    const Location l = b.start.location;
    const std::int64_t dim =
        frontend::normalize_axis("logspace", options.axis, std::int64_t(b.dims.size()) + 1, l);
    const Located exponents = spaced(b, count, options.endpoint);
    const Array at = frontend::moved_dim(exponents.array, 0, dim, l);
    return frontend::converted(power({base.array, l}, {at, l}), b.result, l);
  });
}

Array geomspace(Operand start, Operand stop, std::int64_t count, const SpaceOptions& options) {
  return composed("geomspace", frontend::where_of(start, stop), [&] {
    Bounds b = bounds_of("geomspace", start, stop, count, options);
    const Location l = b.start.location;
    const std::int64_t dim =
        frontend::normalize_axis("geomspace", options.axis, std::int64_t(b.dims.size()) + 1, l);
    const Located direction = b.start.with(sign(Operand(b.start)));
    b.start = b.start.with(log10(Operand(b.start / direction)));
    b.stop = b.stop.with(log10(Operand(b.stop / direction)));
    const Located exponents = spaced(b, count, options.endpoint);
    const Located powers =
        exponents.with(power(Operand(exponents.constant(10)), Operand(exponents)));
    return frontend::converted(frontend::moved_dim((direction * powers).array, 0, dim, l), b.result,
                               l);
  });
}

// ------------------------------------------------------------------ coordinates

std::vector<Array> meshgrid(const std::vector<Array>& arrays, const MeshgridOptions& options,
                            Location location) {
  if (!options.sparse) return meshgrid(arrays, options.xy, location);
  return as_one_program("meshgrid", location, [&] {
    std::vector<Array> out;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Shape& shape = impl_of(arrays[i], location).shape;
      if (shape.rank() > 1) {
        throw ShapeError("meshgrid takes vectors, got " + shape.to_string(), location);
      }
      Dims dims(arrays.size(), 1);
      const bool swap = options.xy && arrays.size() >= 2 && i < 2;
      dims[swap ? 1 - i : i] = shape.element_count();
      out.push_back(frontend::reshaped(arrays[i], dims, location));
    }
    return out;
  });
}

std::vector<Array> indices_sparse(std::vector<std::int64_t> shape, DType dtype, Location location) {
  frontend::check_size("indices", Shape(dtype, shape), location);
  return as_one_program("indices", location, [&] {
    std::vector<Array> out;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Dims dims(shape.size(), 1);
      dims[d] = shape[d];
      out.push_back(iota(dtype, dims, std::int64_t(d), location));
    }
    return out;
  });
}

Array indices(std::vector<std::int64_t> shape, DType dtype, Location location) {
  frontend::check_size("indices", Shape(dtype, shape), location);
  return composed("indices", location, [&] {
    Dims dims = shape;
    dims.insert(dims.begin(), 1);
    std::vector<Array> parts;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      parts.push_back(iota(dtype, dims, std::int64_t(d) + 1, location));
    }
    return parts.empty() ? zeros({0}, dtype, location)
                         : frontend::concatenated(parts, 0, location, "indices");
  });
}

Array fromfunction(const std::function<Array(const std::vector<Array>&)>& f,
                   std::vector<std::int64_t> shape, DType dtype, Location location) {
  frontend::check_size("fromfunction", Shape(dtype, shape), location);
  return composed("fromfunction", location, [&] {
    std::vector<Array> at;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      at.push_back(iota(dtype, shape, std::int64_t(d), location));
    }
    return f(at);
  });
}

std::vector<Array> ix_(const std::vector<Array>& arrays, Location location) {
  std::vector<Array> places;
  for (const Array& a : arrays) {
    const Shape& shape = impl_of(a, location).shape;
    if (shape.rank() != 1) {
      throw ShapeError("ix_ takes vectors, got " + shape.to_string(), location);
    }
    places.push_back(shape.dtype == DType::pred ? flatnonzero({a, location}) : a);
  }
  return as_one_program("ix_", location, [&] {
    std::vector<Array> out;
    for (std::size_t i = 0; i < places.size(); ++i) {
      Dims dims(places.size(), 1);
      dims[i] = places[i].size();
      // An empty array has a dtype of indices.
      const Array a = dims[i] == 0 ? frontend::converted(places[i], s32, location) : places[i];
      out.push_back(frontend::reshaped(a, dims, location));
    }
    return out;
  });
}

// ------------------------------------------------------------------ positions

namespace {

std::pair<Array, Array> triangle_indices(const char* name, std::int64_t n, std::int64_t k,
                                         std::int64_t m, bool lower, Location l) {
  if (n < 0 || m < 0) {
    throw ValueError(std::string(name) + " of a matrix [" + std::to_string(n) + ", " +
                         std::to_string(m) + "]; give sizes of 0 or more",
                     l);
  }
  frontend::check_size(name, Shape(s32, {n, m}), l);
  std::vector<std::int32_t> rows, columns;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t bound = std::clamp<std::int64_t>(i + k + (lower ? 1 : 0), 0, m);
    for (std::int64_t j = lower ? 0 : bound; j < (lower ? bound : m); ++j) {
      rows.push_back(std::int32_t(i));
      columns.push_back(std::int32_t(j));
    }
  }
  return {array(rows, std::nullopt, l), array(columns, std::nullopt, l)};
}

const Shape& matrix_shape(const char* name, const Operand& x) {
  if (shape_of(x).rank() != 2) {
    throw ShapeError(std::string(name) + " of " + shape_of(x).to_string() + "; give a matrix",
                     x.location);
  }
  return shape_of(x);
}

}  // namespace

std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m,
                                     Location location) {
  return triangle_indices("tril_indices", n, k, m.value_or(n), true, location);
}
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m,
                                     Location location) {
  return triangle_indices("triu_indices", n, k, m.value_or(n), false, location);
}
std::pair<Array, Array> tril_indices_from(Operand x, std::int64_t k) {
  const Shape& shape = matrix_shape("tril_indices_from", x);
  return tril_indices(shape.dim(0), k, shape.dim(1), x.location);
}
std::pair<Array, Array> triu_indices_from(Operand x, std::int64_t k) {
  const Shape& shape = matrix_shape("triu_indices_from", x);
  return triu_indices(shape.dim(0), k, shape.dim(1), x.location);
}

std::vector<Array> diag_indices(std::int64_t n, std::int64_t ndim, Location location) {
  if (n < 0 || ndim < 0) {
    throw ValueError("diag_indices of " + std::to_string(ndim) + " dimensions of size " +
                         std::to_string(n) + "; give 0 or more",
                     location);
  }
  return std::vector<Array>(std::size_t(ndim), iota(s32, {n}, 0, location));
}
std::vector<Array> diag_indices_from(Operand x) {
  const Shape& shape = shape_of(x);
  const bool square = std::all_of(shape.dims.begin(), shape.dims.end(),
                                  [&](std::int64_t d) { return d == shape.dims[0]; });
  if (shape.rank() < 2 || !square) {
    throw ShapeError("diag_indices_from of " + shape.to_string() +
                         "; give an array of rank 2 or more with equal sizes",
                     x.location);
  }
  return diag_indices(shape.dim(0), shape.rank(), x.location);
}

std::pair<Array, Array> internal::mask_indices(
    std::int64_t n, const std::function<Array(Operand, std::int64_t)>& mask, std::int64_t k,
    std::optional<std::int64_t> size, Location location) {
  const Array kept = mask({ones({n, n}, f32, location), location}, k);
  if (kept.ndim(location) != 2) {
    throw ShapeError(
        "mask_indices: the function returns " + kept.type_string() + "; it must return a matrix",
        location);
  }
  SizeOptions options;
  options.size = size;
  const std::vector<Array> at = nonzero({kept, location}, options);
  return {at[0], at[1]};
}

Array ravel_multi_index(const std::vector<Array>& positions, std::vector<std::int64_t> shape,
                        const RavelIndexOptions& options, Location location) {
  const std::string name = "ravel_multi_index";
  if (positions.size() != shape.size()) {
    throw ValueError(name + ": " + std::to_string(positions.size()) + " arrays of positions for " +
                         std::to_string(shape.size()) + " dimensions; give one for each",
                     location);
  }
  for (const Array& p : positions) frontend::need_integers(name, p, location);
  const Array whole(0);  // Weak: it changes no dtype, and without positions gives s32.
  std::vector<Array> all = positions;
  all.push_back(whole);
  const DType t = options.dtype.value_or(frontend::promote(all, location).dtype);
  std::int64_t count = 1;
  for (const std::int64_t d : shape) count = frontend::multiply_sizes(name, count, d, location);
  if (!is_integer(t) || (count > 0 && std::uint64_t(count - 1) > iinfo(t, location).max)) {
    throw ValueError(name + " in an array of shape " + to_string(shape) + ": " +
                         std::string(tessera::name(t)) +
                         " can't number its elements; give another dtype",
                     location);
  }
  for (std::size_t d = 0; d < shape.size() && options.mode == IndexMode::automatic; ++d) {
    const Operand p{positions[d], location};
    if (positions[d].is_tracer()) {
      throw TracerError(name + ": whether the traced " + positions[d].type_string() +
                            " is in range isn't known; choose mode clip, wrap or promise_in_bounds",
                        location);
    }
    const Array bad =
        any({frontend::composed(
                 name, location,
                 [&] {
                   return logical_not({frontend::in_range(p.array, shape[d], location), location});
                 }),
             location});
    if (bad.item<bool>(location)) {
      throw ValueError(name + ": positions along dimension " + std::to_string(d) +
                           " are out of range; valid are 0 to " + std::to_string(shape[d] - 1),
                       location);
    }
  }
  if (options.mode == IndexMode::fill || options.mode == IndexMode::drop) {
    throw ValueError(name + ": valid modes are automatic, clip, wrap and promise_in_bounds",
                     location);
  }
  return composed(name, location, [&] {
    Located sum{program_constant(t, 0), location};
    std::int64_t stride = 1;
    const std::size_t n = shape.size();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t d = options.column_major ? i : n - 1 - i;
      Located p{positions[d], location};
      if (options.mode == IndexMode::clip) {
        p = p.with(clip(Operand(p), Array(0), Array(shape[d] - 1)));
      } else if (options.mode == IndexMode::wrap) {
        p = p.with(remainder(Operand(p), Operand(Array(shape[d]), location)));
      }
      sum = sum + as_type(p, t) * double(stride);
      stride *= shape[d];
    }
    return sum.array;
  });
}

std::vector<Array> unravel_index(Operand positions, std::vector<std::int64_t> shape) {
  const Location l = positions.location;
  frontend::need_integers("unravel_index", positions.array, l);
  return as_one_program("unravel_index", l, [&] {
    Located rest{positions.array, l};
    std::vector<Located> at(shape.size(), rest);
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto [quotient, position] = divmod(Operand(rest), Operand(Array(shape[d]), l));
      rest = rest.with(quotient);
      at[d] = rest.with(position);
    }
    // What is left over is 0 for positions in range, and -1 for negative ones that count from the
    // end.
    const Located above = rest > 0.0;
    std::vector<Array> out;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Located x = at[d];
      if (!is_unsigned_integer(rest.dtype())) {
        x = frontend::choose(rest < -1.0, x.constant(0), x);
      }
      out.push_back(frontend::choose(above, x.constant(double(shape[d] - 1)), x).array);
    }
    return out;
  });
}

// ------------------------------------------------------------------ window functions

namespace {

/// f(i) for i = 0 .. n - 1, rounded to f32; ones for n up to 1.
Array window(const char* name, std::int64_t n, Location l, double (*f)(double i, double last)) {
  if (n < 0) {
    throw ValueError(std::string(name) + " of " + std::to_string(n) + " numbers; give 0 or more",
                     l);
  }
  frontend::check_size(name, Shape(f32, {n}), l);
  std::vector<float> values(std::size_t(n), 1.0f);
  for (std::int64_t i = 0; i < n && n > 1; ++i) {
    values[std::size_t(i)] = float(f(double(i), double(n - 1)));
  }
  return array(values, std::nullopt, l);
}

double wave(double i, double last, int times) {
  return std::cos(2 * std::numbers::pi * times * i / last);
}

}  // namespace

Array bartlett(std::int64_t n, Location location) {
  return window("bartlett", n, location,
                [](double i, double last) { return 1 - std::abs(2 * i - last) / last; });
}
Array blackman(std::int64_t n, Location location) {
  return window("blackman", n, location, [](double i, double last) {
    return 0.42 - 0.5 * wave(i, last, 1) + 0.08 * wave(i, last, 2);
  });
}
Array hamming(std::int64_t n, Location location) {
  return window("hamming", n, location,
                [](double i, double last) { return 0.54 - 0.46 * wave(i, last, 1); });
}
Array hanning(std::int64_t n, Location location) {
  return window("hanning", n, location,
                [](double i, double last) { return 0.5 - 0.5 * wave(i, last, 1); });
}
Array kaiser(std::int64_t n, Operand beta) {
  const Location l = beta.location;
  if (shape_of(beta).rank() != 0) {
    throw ShapeError("kaiser with beta " + beta.array.type_string() + "; give a scalar", l);
  }
  if (n <= 1) {
    return window("kaiser", n, l, [](double, double) { return 1.0; });
  }
  frontend::check_size("kaiser", Shape(f32, {n}), l);
  return composed("kaiser", l, [&] {
    const Located b = frontend::inexact_operands("kaiser", {beta})[0];
    std::vector<double> shape;
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = 2 * double(i) / double(n - 1) - 1;
      shape.push_back(std::sqrt(std::max(0.0, 1 - x * x)));
    }
    const Located s = b.with(program_constant(make_literal(b.dtype(), {n}, shape)));
    return (b.with(i0(Operand(b * s))) / b.with(i0(Operand(b)))).array;
  });
}

}  // namespace tessera
