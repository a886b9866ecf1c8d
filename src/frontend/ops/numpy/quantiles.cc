// SPDX-License-Identifier: Apache-2.0
// Quantiles, of elements sorted along one dimension.
#include <cmath>
#include <limits>

#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/statistics.h>

#include "src/frontend/ops/nn/weights.h"
#include "src/frontend/ops/numpy/sorting.h"

namespace tessera {

using frontend::as_type;
using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// The reduced dims joined as the last one.
Array joined(const Array& x, const Dims& reduced, Location l) {
  Dims perm, dims;
  std::int64_t count = 1;
  std::size_t next = 0;
  const Dims shape = x.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (next < reduced.size() && reduced[next] == std::int64_t(d)) {
      count *= shape[d];
      ++next;
      continue;
    }
    perm.push_back(std::int64_t(d));
    dims.push_back(shape[d]);
  }
  perm.insert(perm.end(), reduced.begin(), reduced.end());
  dims.push_back(count);
  return frontend::reshaped(frontend::transposed(x, perm, l), dims, l);
}

struct Quantiles {
  std::string name;
  Location l;
  QuantileMethod method;
  bool skip_nan;

  Located located(const Array& a) const { return {a, l}; }

  /// values [.., n] sorted, q [Q] -> [.., Q].
  Located between(const Located& values, const Located& q) const {
    const std::int64_t n = values.array.shape().back();
    // [.., 1]: how many elements there are.
    Located count = located(frontend::program_constant(q.dtype(), double(n)));
    if (skip_nan) {
      ReduceOptions keep;
      keep.keepdims = true;
      keep.dtype = q.dtype();
      count = located(sum({logical_not({isnan(values), l}), l}, -1, keep));
    }
    const Located last = count - 1.0, zero = count.constant(0);
    const Located place = q * last;
    const auto limited = [&](const Array& p) {
      return located(maximum(zero, {minimum({p, l}, last), l}));
    };
    const Located floor_ = located(floor(place)), ceil_ = located(ceil(place));
    const Located share = place - floor_;
    const auto element = [&](const Located& at) {
      Located i = as_type(at, s32);
      Dims dims = values.array.shape();
      dims.back() = i.array.shape().back();
      i = located(frontend::broadcasted(i.array, dims, l));
      return located(take_along_axis(values, i, -1, TakeMode::clip));
    };
    const Located low = element(limited(floor_.array)), high = element(limited(ceil_.array));
    switch (method) {
      case QuantileMethod::lower:
        return low;
      case QuantileMethod::higher:
        return high;
      case QuantileMethod::midpoint:
        return (low + high) * 0.5;
      case QuantileMethod::nearest:
        return choose(share <= 0.5, low, high);
      default:
        return as_type(as_type(low, q.dtype()) * (1.0 - share) + as_type(high, q.dtype()) * share,
                       values.dtype());
    }
  }

  /// The same by shares of weights, [.., n].
  Located by_weight(const Located& values, const Located& weights, const Located& q) const {
    const Located missing = located(isnan(values));
    const Located bad = (weights < 0.0) | located(isnan(weights));
    const Located clean = choose(bad | missing, weights.constant(0), weights);
    const Located sums = located(cumsum(clean, -1));
    const std::int64_t rank = std::int64_t(sums.array.shape().size());
    const std::int64_t n = sums.array.shape().back();
    const Located total =
        located(frontend::sliced_dim(sums.array, rank - 1, n - 1, n, l));  // [.., 1]
    const Located target = as_type(q, weights.dtype()) * total;            // [.., Q]
    // [.., Q, n]
    const Located before = located(expand_dims(sums, -2)) < located(expand_dims(target, -1));
    Located place = located(sum(before, -1));
    Located last = located(frontend::program_constant(s32, double(n - 1)));
    Located force = located(any(bad, -1, true));
    if (skip_nan) {
      ReduceOptions keep;
      keep.keepdims = true;
      const Located count = located(sum({logical_not(missing), l}, -1, keep));
      last = count - 1.0;
      force = force | (count == 0.0);
    } else {
      force = force | located(any(missing, -1, true));
    }
    place = located(maximum(place.constant(0), {minimum(place, last), l}));
    const Located found = located(take_along_axis(values, place, -1, TakeMode::clip));
    return choose(force, found.constant(kNotANumber), found);
  }
};

Array quantiles(const std::string& name, const Operand& x, const Operand& q, const Axes& axes,
                const QuantileOptions& options, bool skip_nan, double unit) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  const DType t = frontend::to_inexact(shape.dtype);
  if (is_complex(t)) throw DTypeError(name + " of " + x.array.type_string(), l);
  if (shape_of(q).rank() > 1) {
    throw ShapeError(name + " with q " + q.array.type_string() + "; valid are scalars and vectors",
                     l);
  }
  if (options.weights && options.method != QuantileMethod::inverted_cdf) {
    throw ValueError(name + " with weights is only for QuantileMethod::inverted_cdf", l);
  }
  const Dims reduced = frontend::normalize_axes(name, axes, shape.rank(), l);
  std::int64_t count = 1;
  for (const std::int64_t d : reduced) count *= shape.dim(d);
  if (count == 0) {
    throw ValueError(name + " over no elements (" + shape.to_string() + ") has no value", l);
  }
  return composed(name, l, [&] {
    const Quantiles how{name, l, options.method, skip_nan};
    Located v{frontend::converted(x.array, t, l), l};
    Located values = v.with(joined(v.array, reduced, l));
    const Located nan = values.constant(kNotANumber), missing = v.with(isnan(values));
    // One NaN makes all of them NaN; those to be left out come last.
    const Located spoilt = skip_nan ? missing : v.with(any(missing, -1, true));
    values = choose(spoilt, nan, values);
    DType work = frontend::to_inexact(shape_of(q).dtype);
    if (t == f64) work = f64;
    Located places{frontend::converted(q.array, work, l), l};
    if (unit != 1) places = places / unit;
    const bool many = !places.array.shape().empty();
    if (!many) places = places.with(frontend::reshaped(places.array, {1}, l));
    const std::int64_t last = std::int64_t(values.array.shape().size()) - 1;
    Located out;
    if (options.method == QuantileMethod::inverted_cdf) {
      Located weights = values.with(frontend::broadcasted(
          frontend::program_constant(values.dtype(), 1), values.array.shape(), l));
      if (options.weights) {
        const Located given = frontend::aligned_weights(name, x, axes, *options.weights);
        weights = as_type(given, values.dtype());
        weights = weights.with(
            joined(frontend::broadcasted(weights.array, x.array.shape(), l), reduced, l));
      }
      const auto sorted =
          frontend::sorted_together({values.array, weights.array}, last, false, l, name);
      out = how.by_weight(v.with(sorted[0]), v.with(sorted[1]), places);
    } else {
      const auto sorted = frontend::sorted_together({values.array}, last, false, l, name);
      out = how.between(v.with(sorted[0]), places);
    }
    // [.., Q] -> [Q, ..]
    Array moved = frontend::moved_dim(out.array, last, 0, l);
    Dims dims;
    if (many) dims.push_back(moved.shape()[0]);
    std::size_t next = 0;
    for (std::size_t d = 0; d < shape.dims.size(); ++d) {
      if (next < reduced.size() && reduced[next] == std::int64_t(d)) {
        ++next;
        if (options.keepdims) dims.push_back(1);
      } else {
        dims.push_back(shape.dims[d]);
      }
    }
    return frontend::reshaped(moved, dims, l);
  });
}

QuantileOptions at_middle(bool keepdims) {
  QuantileOptions options;
  options.method = QuantileMethod::midpoint;
  options.keepdims = keepdims;
  return options;
}

}  // namespace

Array quantile(Operand x, Operand q, Axes axes, const QuantileOptions& options) {
  return quantiles("quantile", x, q, axes, options, false, 1);
}
Array percentile(Operand x, Operand q, Axes axes, const QuantileOptions& options) {
  return quantiles("percentile", x, q, axes, options, false, 100);
}
Array median(Operand x, Axes axes, bool keepdims) {
  return quantiles("median", x, {Array(0.5f), x.location}, axes, at_middle(keepdims), false, 1);
}
Array nanquantile(Operand x, Operand q, Axes axes, const QuantileOptions& options) {
  return quantiles("nanquantile", x, q, axes, options, true, 1);
}
Array nanpercentile(Operand x, Operand q, Axes axes, const QuantileOptions& options) {
  return quantiles("nanpercentile", x, q, axes, options, true, 100);
}
Array nanmedian(Operand x, Axes axes, bool keepdims) {
  return quantiles("nanmedian", x, {Array(0.5f), x.location}, axes, at_middle(keepdims), true, 1);
}

}  // namespace tessera
