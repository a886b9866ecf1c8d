// SPDX-License-Identifier: Apache-2.0
// Averages, covariances, and reductions that leave out NaN.
#include <tessera/ops/statistics.h>

#include <cmath>
#include <limits>

#include <tessera/ops/products.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/nn/weights.h"

namespace tessera {

using frontend::as_one_program;
using frontend::as_type;
using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace frontend {

Located aligned_weights(const std::string& name, const Operand& x, const Axes& axes,
                        const Array& weights) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  const Dims& have = shape_of({weights, l}).dims;
  if (have == shape.dims) return {weights, l};
  Dims dims;
  for (const std::int64_t a : axes.list()) {
    dims.push_back(normalize_axis(name, a, shape.rank(), l));
  }
  Dims want;
  for (const std::int64_t d : dims) want.push_back(shape.dim(d));
  if (axes.all() || have != want) {
    throw ShapeError(name + " of " + shape.to_string() + " with weights " + weights.type_string() +
                         ": they must have its shape" +
                         (axes.all() ? "; with axes they may have the shape of those"
                                     : " or that of the axes, " + to_string(want)),
                     l);
  }
  // The weights' dims in the order of x's.
  Dims perm(dims.size()), wide(shape.dims.size(), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    perm[i] = std::int64_t(i);
    wide[std::size_t(dims[i])] = want[i];
  }
  std::sort(perm.begin(), perm.end(), [&](std::int64_t a, std::int64_t b) {
    return dims[std::size_t(a)] < dims[std::size_t(b)];
  });
  return {reshaped(transposed(weights, perm, l), wide, l), l};
}

}  // namespace frontend

std::pair<Array, Array> average_and_weights(Operand x, Axes axes, const AverageOptions& options) {
  const Location l = x.location;
  const auto both = as_one_program("average", l, [&] {
    ReduceOptions keep;
    keep.keepdims = options.keepdims;
    if (!options.weights) {
      const Located out{mean(x, axes, keep), l};
      std::int64_t n = 1;
      const Shape& shape = shape_of(x);
      for (std::int64_t d : frontend::normalize_axes("average", axes, shape.rank(), l)) {
        n *= shape.dim(d);
      }
      return std::vector<Array>{
          out.array, frontend::broadcasted(frontend::program_constant(out.dtype(), double(n)),
                                           out.array.shape(), l)};
    }
    Located w = frontend::aligned_weights("average", x, axes, *options.weights);
    const frontend::TypeNode type = frontend::promote({x.array, w.array}, l);
    const DType t = frontend::to_inexact(type.dtype);
    const Located v = as_type({x.array, l}, t);
    w = as_type(w, t);
    w = w.with(frontend::broadcasted(w.array, x.array.shape(), l));
    const Located total = w.with(sum(w, axes, keep));
    return std::vector<Array>{(v.with(sum(v * w, axes, keep)) / total).array, total.array};
  });
  return {both[0], both[1]};
}
Array average(Operand x, Axes axes, const AverageOptions& options) {
  return composed("average", x.location,
                  [&] { return average_and_weights(x, axes, options).first; });
}

Array ptp(Operand x, Axes axes, bool keepdims) {
  return composed("ptp", x.location, [&] {
    return subtract({max(x, axes, keepdims), x.location}, {min(x, axes, keepdims), x.location});
  });
}

namespace {

/// Variables as rows.
Array variables(const char* name, const Array& x, bool rowvar, Location l) {
  const Shape& shape = shape_of({x, l});
  if (shape.rank() > 2) {
    throw ShapeError(
        std::string(name) + " of " + shape.to_string() + "; valid are vectors and matrices", l);
  }
  const Array rows = atleast_2d({x, l});
  return !rowvar && shape.rank() == 2 ? transpose({rows, l}) : rows;
}

}  // namespace

Array cov(Operand x, const CovOptions& options) {
  const Location l = x.location;
  return composed("cov", l, [&]() -> Array {
    std::vector<Array> given{x.array};
    if (options.y) given.push_back(*options.y);
    const DType t = frontend::to_inexact(frontend::promote(given, l).dtype);
    Located rows{frontend::converted(variables("cov", x.array, options.rowvar, l), t, l), l};
    if (options.y) {
      const Array more = variables("cov", *options.y, options.rowvar, l);
      rows = rows.with(concatenate({rows.array, frontend::converted(more, t, l)}, 0, l));
    }
    const std::int64_t n = rows.array.shape()[1];
    const auto check = [&](const char* what, const Array& w) {
      if (w.shape(l) == Dims{n}) return;
      throw ShapeError("cov of " + std::to_string(n) + " samples with " + what + " " +
                           w.type_string() + "; they must be a vector of that many",
                       l);
    };
    const double ddof = double(options.ddof.value_or(options.bias ? 0 : 1));
    const DType real = real_type(t);
    std::optional<Located> w, a;
    if (options.fweights) {
      check("fweights", *options.fweights);
      if (!is_integer(options.fweights->dtype())) {
        throw DTypeError(
            "cov with fweights " + options.fweights->type_string() + "; valid are integers", l);
      }
      w = as_type({abs({*options.fweights, l}), l}, real);
    }
    if (options.aweights) {
      check("aweights", *options.aweights);
      a = as_type({abs({*options.aweights, l}), l}, real);
      w = w ? *w * *a : *a;
    }
    Located factor = as_type(rows.with(frontend::program_constant(real, double(n) - ddof)), real);
    AverageOptions weighted;
    if (w) {
      const Located total = w->with(sum(*w));
      factor = total;
      if (ddof != 0) {
        factor = a ? total - ddof * w->with(sum(*w * *a)) / total : total - ddof;
      }
      weighted.weights = as_type(*w, t).array;
    }
    weighted.keepdims = true;
    const Located centred = rows - rows.with(average(rows, 1, weighted));
    const Located scaled = w ? centred * as_type(*w, t) : centred;
    const Located product =
        rows.with(matmul(centred, {conj({transpose(scaled), l}), l})) / as_type(factor, t);
    return squeeze(product);
  });
}

Array corrcoef(Operand x, const std::optional<Array>& y, bool rowvar) {
  const Location l = x.location;
  return composed("corrcoef", l, [&]() -> Array {
    CovOptions options;
    options.y = y;
    options.rowvar = rowvar;
    const Located c{cov(x, options), l};
    if (c.array.shape().empty()) return (c / c).array;
    const Located spread = as_type(c.with(sqrt({real({diagonal(c), l}), l})), c.dtype());
    const Located out = c / c.with(expand_dims(spread, 1)) / c.with(expand_dims(spread, 0));
    const auto limited = [&](const Array& part) {
      const Located p{part, l};
      return clip(p, p.constant(-1).array, p.constant(1).array);
    };
    if (!is_complex(c.dtype())) return limited(out.array);
    return complex({limited(real(out)), l}, {limited(imag(out)), l});
  });
}

// ------------------------------------------------------------------ reductions without NaN

namespace {

bool may_be_nan(const Operand& x) {
  const DType t = shape_of(x).dtype;
  return is_floating(t) || is_complex(t);
}
Located replaced(const Operand& x, double value) {
  const Located v{x.array, x.location};
  return choose(v.with(isnan(x)), v.constant(value), v);
}
/// Whether elements count: those of `where` that aren't NaN.
Array counting(const Operand& x, const std::optional<Array>& where) {
  const Array number = logical_not({isnan(x), x.location});
  return where ? logical_and({number, x.location}, {*where, x.location}) : number;
}

Array nan_extreme(const char* name, const Operand& x, const Axes& axes, ExtremeOptions options,
                  double worst, Array (*reduce)(Operand, Axes, const ExtremeOptions&)) {
  if (!may_be_nan(x)) return reduce(x, axes, options);
  return composed(name, x.location, [&] {
    const Located best{reduce(replaced(x, worst), axes, options), x.location};
    if (options.initial) return best.array;
    const Located none = best.with(all({isnan(x), x.location}, axes, options.keepdims));
    return choose(none, best.constant(std::numeric_limits<double>::quiet_NaN()), best).array;
  });
}

Array nan_arg(const char* name, const Operand& x, std::optional<std::int64_t> axis, bool keepdims,
              double worst, Array (*arg)(Operand, std::optional<std::int64_t>, bool)) {
  if (!may_be_nan(x)) return arg(x, axis, keepdims);
  return composed(name, x.location, [&] {
    const Located place{arg(replaced(x, worst), axis, keepdims), x.location};
    const Axes axes = axis ? Axes(*axis) : Axes();
    const Located none = place.with(all({isnan(x), x.location}, axes, keepdims));
    return choose(none, place.constant(-1), place).array;
  });
}

}  // namespace

Array nansum(Operand x, Axes axes, const ReduceOptions& options) {
  if (!may_be_nan(x)) return sum(x, axes, options);
  return composed("nansum", x.location, [&] { return sum(replaced(x, 0), axes, options); });
}
Array nanprod(Operand x, Axes axes, const ReduceOptions& options) {
  if (!may_be_nan(x)) return prod(x, axes, options);
  return composed("nanprod", x.location, [&] { return prod(replaced(x, 1), axes, options); });
}
Array nanmean(Operand x, Axes axes, const ReduceOptions& options) {
  if (!may_be_nan(x)) return mean(x, axes, options);
  return composed("nanmean", x.location, [&] {
    ReduceOptions masked = options;
    masked.where = counting(x, options.where);
    return mean(replaced(x, 0), axes, masked);
  });
}
Array nanvar(Operand x, Axes axes, const VarOptions& options) {
  if (!may_be_nan(x)) return var(x, axes, options);
  return composed("nanvar", x.location, [&] {
    VarOptions masked = options;
    masked.where = counting(x, options.where);
    return var(replaced(x, 0), axes, masked);
  });
}
Array nanstd(Operand x, Axes axes, const VarOptions& options) {
  return composed("nanstd", x.location, [&] {
    return sqrt({nanvar(x, axes, options), x.location});
  });
}
Array nanmax(Operand x, Axes axes, const ExtremeOptions& options) {
  return nan_extreme("nanmax", x, axes, options, -std::numeric_limits<double>::infinity(), max);
}
Array nanmin(Operand x, Axes axes, const ExtremeOptions& options) {
  return nan_extreme("nanmin", x, axes, options, std::numeric_limits<double>::infinity(), min);
}
Array nanargmax(Operand x, std::optional<std::int64_t> axis, bool keepdims) {
  return nan_arg("nanargmax", x, axis, keepdims, -std::numeric_limits<double>::infinity(), argmax);
}
Array nanargmin(Operand x, std::optional<std::int64_t> axis, bool keepdims) {
  return nan_arg("nanargmin", x, axis, keepdims, std::numeric_limits<double>::infinity(), argmin);
}
Array nancumsum(Operand x, std::optional<std::int64_t> axis) {
  if (!may_be_nan(x)) return cumsum(x, axis);
  return composed("nancumsum", x.location, [&] { return cumsum(replaced(x, 0), axis); });
}
Array nancumprod(Operand x, std::optional<std::int64_t> axis) {
  if (!may_be_nan(x)) return cumprod(x, axis);
  return composed("nancumprod", x.location, [&] { return cumprod(replaced(x, 1), axis); });
}

}  // namespace tessera
