// SPDX-License-Identifier: Apache-2.0
// Images in other sizes: each dim is multiplied by a matrix of weights.
#include <tessera/image.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <span>

#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/products.h"

namespace tessera::image {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

Located lanczos(const Located& x, double radius) {
  const double pi = std::numbers::pi;
  const Located y = radius * x.with(sin(pi * x)) * x.with(sin(pi * x / radius));
  const Located safe = choose(x != 0.0, pi * pi * (x * x), x.constant(1));
  const Located out = choose(x > 1e-3, y / safe, x.constant(1));
  return choose(x > radius, x.constant(0), out);
}

/// The cubic kernel of parameter a.
Located cubic(const Located& x, double a) {
  const Located inner = ((a + 2) * x - (a + 3)) * x * x + 1.0;
  const Located outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return choose(x >= 2.0, x.constant(0), choose(x >= 1.0, outer, inner));
}

/// The weight of an element at distance x >= 0.
Located kernel_of(ResizeMethod method, const Located& x) {
  switch (method) {
    case ResizeMethod::cubic:
      return cubic(x, -0.5);
    case ResizeMethod::cubic_pytorch:
      return cubic(x, -0.75);
    case ResizeMethod::lanczos3:
      return lanczos(x, 3);
    case ResizeMethod::lanczos5:
      return lanczos(x, 5);
    default:
      return x.with(maximum(Operand(1.0 - x), Operand(x.constant(0))));
  }
}

struct Resampling {
  ResizeMethod method = ResizeMethod::linear;
  bool antialias = true;
  Precision precision = Precision::highest;
  Location location;
};

/// The weights [in, out] of a dim's elements. `scale` and `translation` are scalars of one dtype.
Located weights_of(std::int64_t in, std::int64_t out, const Located& scale,
                   const Located& translation, const Resampling& how) {
  const DType t = scale.dtype();
  const Location l = how.location;
  const Located inverse = scale.constant(1) / scale;
  // Where the result is smaller the kernel also averages.
  const Located width =
      how.antialias ? scale.with(maximum(inverse, scale.constant(1))) : scale.constant(1);
  const Located place{iota(t, {1, out}, 1, l), l};
  const Located sample = (place + 0.5) * inverse - translation * inverse - 0.5;
  // Elements beyond the edges count as the edge.
  const bool repeats_edges = how.method == ResizeMethod::cubic_pytorch;
  const std::int64_t margin = repeats_edges ? 2 : 0;
  const Located element = Located{iota(t, {in + 2 * margin, 1}, 0, l), l} - double(margin);
  Located weights = sample;
  if (how.method == ResizeMethod::area) {
    const Located left = place * inverse - translation * inverse;
    const Located high = left.with(minimum(left + inverse, element + 1.0));
    const Located overlap = high - left.with(maximum(left, element));
    weights = left.with(maximum(overlap, overlap.constant(0)));
  } else {
    weights = kernel_of(how.method, sample.with(abs(sample - element)) / width);
  }
  if (repeats_edges) {
    // The rows beyond an edge are added to the edge's.
    const auto rows = [&](std::int64_t first, std::int64_t limit) {
      return weights.with(frontend::sliced_dim(weights.array, 0, first, limit, l, "resize"));
    };
    const auto summed = [&](std::int64_t first, std::int64_t limit) {
      ReduceOptions keep;
      keep.keepdims = true;
      return weights.with(sum(rows(first, limit), 0, keep)).array;
    };
    weights =
        weights.with(in == 1 ? summed(0, 1 + 2 * margin)
                             : frontend::concatenated(
                                   {summed(0, margin + 1), rows(margin + 1, margin + in - 1).array,
                                    summed(margin + in - 1, in + 2 * margin)},
                                   0, l, "resize"));
  }
  ReduceOptions keep;
  keep.keepdims = true;
  const Located total = weights.with(sum(weights, 0, keep));
  const Located safe = choose(total != 0.0, total, total.constant(1));
  const double least = 1000.0 * double(std::numeric_limits<float>::epsilon());
  weights = choose(total.with(abs(total)) > least, weights / safe, total.constant(0));
  if (repeats_edges) return weights;
  const Located inside = (sample >= -0.5) & (sample <= double(in) - 0.5);
  return choose(inside, weights, weights.constant(0));
}

/// Dim d of x multiplied by weights [in, out], which takes its place.
Array resampled_dim(const Array& x, std::int64_t d, const Located& weights, const Resampling& how) {
  ir::DotAttrs attrs;
  attrs.lhs_contracting = {d};
  attrs.rhs_contracting = {0};
  attrs.operand_precision = frontend::operand_precision(how.precision);
  const Array w = frontend::converted(weights.array, x.dtype(), how.location);
  const Array out = frontend::dotted(x, w, attrs, {}, how.location, "resize");
  return frontend::moved_dim(out, std::int64_t(out.shape().size()) - 1, d, how.location, "resize");
}

void check_shape(const std::string& op, const Shape& x, const Dims& shape, Location location) {
  if (shape.size() != x.dims.size()) {
    throw ShapeError(op + " of " + x.to_string() + " to " + to_string(shape) +
                         ": the shape must have a size for each of the array's dimensions",
                     location);
  }
  frontend::check_size(op, Shape(x.dtype, shape), location);
  if (is_complex(x.dtype)) throw DTypeError(op + " of complex numbers", location);
}

/// The dtype of weights: that of JAX for arrays up to f32.
DType weights_type(DType x) { return x == f64 ? f64 : f32; }

Array nearest(const Array& x, const Dims& shape, Location location) {
  Array out = x;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t in = x.shape()[d], size = shape[d];
    if (in == size) continue;
    const auto dim = std::int64_t(d);
    if (size > 0 && size % in == 0) {
      out = repeat({out, location}, size / in, dim);
      continue;
    }
    Literal positions(tessera::Shape(s32, {size}));
    const std::span<std::int32_t> position = positions.mutable_data<std::int32_t>();
    for (std::int64_t i = 0; i < size; ++i) {
      // In single precision, as in JAX.
      const float at = (float(i) + 0.5f) * float(in) / float(size);
      position[std::size_t(i)] = std::int32_t(std::floor(at));
    }
    const Array at = frontend::program_constant(positions);
    out = take({out, location}, {at, location}, dim, TakeMode::clip);
  }
  return out;
}

}  // namespace

Array resize(Operand x, std::vector<std::int64_t> shape, ResizeMethod method, bool antialias,
             Precision precision) {
  const Shape have = shape_of(x);
  const Location l = x.location;
  check_shape("image::resize", have, shape, l);
  std::vector<std::size_t> changed;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == have.dims[d]) continue;
    if (have.dims[d] == 0) {
      throw ShapeError("image::resize of " + have.to_string() + " to " + to_string(shape) +
                           ": dimension " + std::to_string(d) + " has no elements to begin with",
                       l);
    }
    changed.push_back(d);
  }
  if (method == ResizeMethod::nearest) {
    return composed("resize", l, [&] { return nearest(x.array, shape, l); });
  }
  if (method == ResizeMethod::cubic_pytorch && antialias) method = ResizeMethod::cubic;
  // Dims that shrink come first, so that products are small.
  const auto growth = [&](std::size_t d) { return double(shape[d]) / double(have.dims[d]); };
  std::stable_sort(changed.begin(), changed.end(),
                   [&](std::size_t a, std::size_t b) { return growth(a) < growth(b); });
  const DType t = frontend::to_inexact(have.dtype), w = weights_type(t);
  return composed("resize", l, [&] {
    Array out = frontend::converted(x.array, t, l);
    for (std::size_t d : changed) {
      const Located scale{frontend::program_constant(w, shape[d] == 0 ? 1.0 : growth(d)), l};
      const Located weights = weights_of(have.dims[d], shape[d], scale, scale.constant(0),
                                         {method, antialias, precision, l});
      out = resampled_dim(out, std::int64_t(d), weights, {method, antialias, precision, l});
    }
    return out;
  });
}

Array scale_and_translate(Operand x, std::vector<std::int64_t> shape,
                          std::vector<std::int64_t> spatial_dims, Operand scale,
                          Operand translation, ResizeMethod method, bool antialias,
                          Precision precision) {
  const std::string op = "image::scale_and_translate";
  const Shape have = shape_of(x);
  const Location l = x.location;
  check_shape(op, have, shape, l);
  if (method == ResizeMethod::nearest) {
    throw ValueError(op + " by the nearest element; valid are all other methods", l);
  }
  std::set<std::int64_t> moved;
  for (std::int64_t& d : spatial_dims) {
    d = frontend::normalize_axis(op, d, have.rank(), l);
    if (!moved.insert(d).second) {
      throw ValueError(op + ": spatial_dims name dimension " + std::to_string(d) + " twice", l);
    }
  }
  for (std::int64_t d = 0; d < have.rank(); ++d) {
    if (moved.count(d) == 0 && have.dim(d) != shape[std::size_t(d)]) {
      throw ShapeError(op + " of " + have.to_string() + " to " + to_string(shape) + ": dimension " +
                           std::to_string(d) + " changes its size and isn't one of spatial_dims",
                       l);
    }
  }
  const Dims count{std::int64_t(spatial_dims.size())};
  for (const Operand* o : {&scale, &translation}) {
    const Shape& given = internal::impl_of(o->array, l).shape;
    if (given.dims != count || is_complex(given.dtype)) {
      throw ShapeError(op + ": scale and translation must be real numbers of shape " +
                           to_string(count) + ", one for each of spatial_dims; got " +
                           given.to_string(),
                       l);
    }
  }
  if (method == ResizeMethod::cubic_pytorch && antialias) method = ResizeMethod::cubic;
  const DType t = frontend::to_inexact(have.dtype);
  return composed("scale_and_translate", l, [&] {
    Array out = frontend::converted(x.array, t, l);
    const DType w =
        frontend::to_inexact(frontend::promote({scale.array, translation.array}, l).dtype);
    const Located scales = frontend::as_type({scale.array, l}, w);
    const Located shifts = frontend::as_type({translation.array, l}, w);
    for (std::size_t i = 0; i < spatial_dims.size(); ++i) {
      const auto at = [&](const Located& all) {
        const auto first = std::int64_t(i);
        return all.with(
            frontend::reshaped(frontend::sliced_dim(all.array, 0, first, first + 1, l, op), {}, l));
      };
      const std::int64_t d = spatial_dims[i];
      const Resampling how{method, antialias, precision, l};
      const Located weights =
          weights_of(have.dim(d), shape[std::size_t(d)], at(scales), at(shifts), how);
      out = resampled_dim(out, d, weights, how);
    }
    return out;
  });
}

}  // namespace tessera::image
