// SPDX-License-Identifier: Apache-2.0
// softmax and its kin, and standardisation: what is normalised along axes.
#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/nn.h>

#include <cmath>
#include <limits>

#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

constexpr double kBelowAll = -std::numeric_limits<double>::infinity();

ReduceOptions keeping() {
  ReduceOptions options;
  options.keepdims = true;
  return options;
}

/// Checks the operands of a function along axes, and that a mask broadcasts.
void check_along(const std::string& op, const Operand& x, const Axes& axes,
                 const std::optional<Array>& where) {
  const Shape& shape = shape_of(x);
  (void)frontend::normalize_axes(op, axes, shape.rank(), x.location);
  if (is_complex(shape.dtype)) {
    throw DTypeError(op + " of complex numbers (" + x.array.type_string() + ")", x.location);
  }
  if (!where) return;
  const Dims& mask = internal::impl_of(*where, x.location).shape.dims;
  if (frontend::broadcast_shapes(op, shape.dims, mask, x.location) != shape.dims) {
    throw ShapeError(op + " of " + x.array.type_string() + ": `where` is " + where->type_string() +
                         " and doesn't broadcast to it",
                     x.location);
  }
}

Located real_numbers(const Operand& x) {
  const DType t = frontend::to_inexact(shape_of(x).dtype);
  return {frontend::converted(x.array, t, x.location, x.array.weak_type()), x.location};
}

Located as_mask(const Array& where, Location location) {
  if (where.dtype() == DType::pred) return {where, location};
  return Located{where, location} !=
         Located{frontend::program_constant(where.dtype(), 0), location};
}

/// x minus its maximum along axes, of elements that take part; the others are -infinity. The
/// maximum is a constant to derivatives, which don't depend on it.
Located below_maximum(const Located& x, const Axes& axes, const std::optional<Located>& mask) {
  if (x.array.size() == 0) return x;
  if (!mask) return x - x.with(stop_gradient(Operand(x.with(max(x, axes, true)))));
  const Located least = x.constant(kBelowAll);
  const Located high =
      x.with(stop_gradient(Operand(x.with(max(choose(*mask, x, least), axes, true)))));
  // Where no element takes part.
  const Located finite = choose(high == kBelowAll, x.constant(0), high);
  return choose(*mask, x - finite, least);
}

std::optional<Located> mask_of(const std::optional<Array>& where, Location location) {
  if (!where) return std::nullopt;
  return as_mask(*where, location);
}

/// The number of elements along axes that take part, with dims kept.
Located counted(const Located& x, const Axes& axes, const std::optional<Located>& mask,
                bool keepdims) {
  const Dims dims =
      frontend::normalize_axes("mean", axes, std::int64_t(x.array.shape().size()), x.location);
  if (!mask) {
    double n = 1;
    for (std::int64_t d : dims) n *= double(x.array.shape()[std::size_t(d)]);
    return x.constant(n);
  }
  const Array ones_and_zeros = frontend::converted(mask->array, x.dtype(), x.location);
  const Array whole = frontend::broadcasted(ones_and_zeros, x.array.shape(), x.location);
  ReduceOptions options;
  options.keepdims = keepdims;
  return x.with(sum({whole, x.location}, axes, options));
}

}  // namespace

Array softmax(Operand x, Axes axes, const std::optional<Array>& where) {
  check_along("softmax", x, axes, where);
  return composed("softmax", x.location, [&]() -> Array {
    const std::optional<Located> mask = mask_of(where, x.location);
    const Located v = real_numbers(x);
    const Located shifted = below_maximum(v, axes, mask);
    const Located e = v.with(exp(shifted));
    Located total = v.with(sum(e, axes, keeping()));
    if (mask) total = choose(total == 0.0, total.constant(1), total);
    return (e / total).array;
  });
}

Array log_softmax(Operand x, Axes axes, const std::optional<Array>& where) {
  check_along("log_softmax", x, axes, where);
  return composed("log_softmax", x.location, [&]() -> Array {
    const std::optional<Located> mask = mask_of(where, x.location);
    const Located v = real_numbers(x);
    const Located shifted = below_maximum(v, axes, mask);
    Located total = v.with(sum(v.with(exp(shifted)), axes, keeping()));
    if (mask) total = choose(total == 0.0, total.constant(1), total);
    return (shifted - v.with(log(total))).array;
  });
}

Array logmeanexp(Operand x, Axes axes, bool keepdims, const std::optional<Array>& where) {
  check_along("logmeanexp", x, axes, where);
  return composed("logmeanexp", x.location, [&]() -> Array {
    const std::optional<Located> mask = mask_of(where, x.location);
    const Located v = real_numbers(x);
    const Located taken = mask ? choose(*mask, v, v.constant(kBelowAll)) : v;
    const Located total = v.with(logsumexp(taken, axes, keepdims));
    return (total - v.with(log(counted(v, axes, mask, keepdims)))).array;
  });
}

Array standardize(Operand x, Axes axes, const StandardizeOptions& options) {
  const std::string op = "standardize";
  check_along(op, x, axes, options.where);
  const Shape& shape = shape_of(x);
  for (const std::optional<Array>* given : {&options.mean, &options.variance}) {
    if (!*given) continue;
    const Shape& have = internal::impl_of(**given, x.location).shape;
    if (frontend::broadcast_shapes(op, shape.dims, have.dims, x.location) != shape.dims) {
      throw ShapeError(op + " of " + x.array.type_string() + ": mean or variance " +
                           have.to_string() + " doesn't broadcast to it",
                       x.location);
    }
  }
  return composed(op, x.location, [&]() -> Array {
    const std::optional<Located> mask = mask_of(options.where, x.location);
    const Located v = real_numbers(x);
    // Sums of 16-bit floats are made in f32.
    const DType t = v.dtype(), work = byte_size(t) < 4 ? f32 : t;
    const auto mean_of = [&](const Located& values) {
      const Located wide = frontend::as_type(values, work);
      const Located taken = mask ? choose(*mask, wide, wide.constant(0)) : wide;
      const Located total = v.with(sum(taken, axes, keeping()));
      return frontend::as_type(total / counted(wide, axes, mask, true), t);
    };
    const Located centre = options.mean ? Located{*options.mean, x.location} : mean_of(v);
    const auto spread = [&]() -> Located {
      if (options.variance) return {*options.variance, x.location};
      if (options.algorithm == VarianceAlgorithm::stable) {
        const Located d = v - centre;
        return mean_of(d * d);
      }
      const Located fast = mean_of(v * v) - centre * centre;
      return v.with(maximum(fast, fast.constant(0)));
    };
    const Located root = v.with(rsqrt(spread() + options.epsilon));
    return ((v - centre) * root).array;
  });
}

}  // namespace tessera
