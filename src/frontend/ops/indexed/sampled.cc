// SPDX-License-Identifier: Apache-2.0
// Differences, integrals and interpolation of sampled functions.
#include <tessera/ops/sampled.h>

#include <cmath>

#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/numpy/sorting.h"
#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::as_one_program;
using frontend::as_type;
using frontend::choose;
using frontend::composed;
using frontend::inexact_operands;
using frontend::Located;
using frontend::shape_of;

namespace {

/// [start, limit) along a dim; a negative limit counts from the end, as does 0.
Located part(const Located& x, std::int64_t dim, std::int64_t start, std::int64_t limit) {
  const std::int64_t n = x.array.shape()[std::size_t(dim)];
  return x.with(
      frontend::sliced_dim(x.array, dim, start, limit <= 0 ? n + limit : limit, x.location));
}

std::int64_t axis_of(const char* name, const Operand& x, std::int64_t axis) {
  if (shape_of(x).rank() == 0) {
    throw ShapeError(std::string(name) + " of a scalar; give rank 1 or more", x.location);
  }
  return frontend::normalize_axis(name, axis, shape_of(x).rank(), x.location);
}

Located difference(const Located& x, std::int64_t dim) {
  if (x.array.shape()[std::size_t(dim)] == 0) return x;
  const Located high = part(x, dim, 1, 0), low = part(x, dim, 0, -1);
  return x.dtype() == DType::pred ? high != low : high - low;
}

}  // namespace

Array diff(Operand x, std::int64_t n, std::int64_t axis, const DiffOptions& options) {
  const Location l = x.location;
  if (n < 0) throw ValueError("diff of order " + std::to_string(n) + "; valid are 0 and more", l);
  const std::int64_t dim = axis_of("diff", x, axis);
  if (n == 0) return x.array;
  return composed("diff", l, [&] {
    std::vector<Array> parts;
    const auto add = [&](const Array& a) {
      Dims one = shape_of(x).dims;
      one[std::size_t(dim)] = 1;
      parts.push_back(a.shape(l).empty() ? frontend::broadcasted(a, one, l) : a);
    };
    if (options.prepend) add(*options.prepend);
    parts.push_back(x.array);
    if (options.append) add(*options.append);
    Located v{parts.size() > 1 ? concatenate(parts, dim, l) : x.array, l};
    for (std::int64_t i = 0; i < n; ++i) v = difference(v, dim);
    return v.array;
  });
}

Array ediff1d(Operand x, const std::optional<Array>& to_end, const std::optional<Array>& to_begin) {
  const Location l = x.location;
  return composed("ediff1d", l, [&] {
    const Located v{ravel(x), l};
    std::vector<Array> parts;
    const auto add = [&](const Array& a) {
      parts.push_back(ravel({frontend::converted(a, v.dtype(), l), l}));
    };
    if (to_begin) add(*to_begin);
    parts.push_back(difference(v, 0).array);
    if (to_end) add(*to_end);
    return frontend::concatenated(parts, 0, l, "ediff1d");
  });
}

std::vector<Array> gradient(Operand x, const std::vector<Array>& spacing, Axes axes) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  Dims dims;
  if (axes.all()) {
    dims = frontend::normalize_axes("gradient", axes, shape.rank(), l);
  } else {
    (void)frontend::normalize_axes("gradient", axes, shape.rank(), l);
    for (const std::int64_t a : axes.list()) {
      dims.push_back(frontend::normalize_axis("gradient", a, shape.rank(), l));
    }
  }
  if (dims.empty()) return {};
  if (spacing.size() > 1 && spacing.size() != dims.size()) {
    throw ValueError("gradient along " + std::to_string(dims.size()) + " axes with " +
                         std::to_string(spacing.size()) +
                         " spacings; give one for each axis, or one for all",
                     l);
  }
  return as_one_program("gradient", l, [&] {
    const Located v = inexact_operands("gradient", {x}, true)[0];
    std::vector<Array> out;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t dim = dims[i], n = shape.dim(dim);
      if (n < 2) {
        throw ShapeError("gradient of " + shape.to_string() + " along axis " + std::to_string(dim) +
                             "; give 2 elements or more",
                         l);
      }
      Located first = part(v, dim, 1, 2) - part(v, dim, 0, 1);
      Located last = part(v, dim, n - 1, n) - part(v, dim, n - 2, n - 1);
      Located inner = v;
      Located h = v.constant(1);
      if (!spacing.empty()) {
        const Array& given = spacing[spacing.size() == 1 ? 0 : i];
        const Dims have = given.shape(l);
        if (have.size() > 1 || (have.size() == 1 && have[0] != n)) {
          throw ShapeError("gradient of " + shape.to_string() + " along axis " +
                               std::to_string(dim) + " with spacing " + given.type_string() +
                               "; valid are scalars and vectors of " + std::to_string(n),
                           l);
        }
        h = v.with(frontend::converted(given, v.dtype(), l));
      }
      if (h.array.shape().empty()) {
        first = first / h;
        last = last / h;
        if (n > 2) inner = (part(v, dim, 2, 0) - part(v, dim, 0, -2)) * 0.5 / h;
      } else {
        Dims wide(shape.dims.size(), 1);
        wide[std::size_t(dim)] = n;
        const Located at = v.with(frontend::reshaped(h.array, wide, l));
        first = first / (part(at, dim, 1, 2) - part(at, dim, 0, 1));
        last = last / (part(at, dim, n - 1, n) - part(at, dim, n - 2, n - 1));
        if (n > 2) {
          const Located low = part(at, dim, 1, -1) - part(at, dim, 0, -2);
          const Located high = part(at, dim, 2, 0) - part(at, dim, 1, -1);
          const Located both = low + high;
          inner = -high / (low * both) * part(v, dim, 0, -2) +
                  (high - low) / (low * high) * part(v, dim, 1, -1) +
                  low / (high * both) * part(v, dim, 2, 0);
        }
      }
      std::vector<Array> parts{first.array, inner.array, last.array};
      if (n == 2) parts.erase(parts.begin() + 1);
      out.push_back(frontend::concatenated(parts, dim, l, "gradient"));
    }
    return out;
  });
}

Array trapezoid(Operand y, double dx, std::int64_t axis) {
  const std::int64_t dim = axis_of("trapezoid", y, axis);
  return composed("trapezoid", y.location, [&]() -> Array {
    const Located v = inexact_operands("trapezoid", {y}, true)[0];
    const Located whole = v.with(sum(v, dim));
    const std::int64_t n = v.array.shape()[std::size_t(dim)];
    if (n == 0) return whole.array;
    const Located ends =
        v.with(sum(part(v, dim, 0, 1), dim)) + v.with(sum(part(v, dim, n - 1, n), dim));
    return ((whole - ends * 0.5) * dx).array;
  });
}
Array trapezoid_at(Operand y, Operand x, std::int64_t axis) {
  const std::int64_t dim = axis_of("trapezoid_at", y, axis);
  const Location l = y.location;
  const Shape &values = shape_of(y), &places = shape_of(x);
  const bool vector = places.rank() == 1;
  if (vector ? places.dim(0) != values.dim(dim) : places.dims != values.dims) {
    throw ShapeError("trapezoid_at of " + values.to_string() + " at " + places.to_string() +
                         "; positions are a vector of " + std::to_string(values.dim(dim)) +
                         ", or have the shape of the samples",
                     l);
  }
  return composed("trapezoid_at", l, [&] {
    Array at = x.array;
    if (vector) {
      Dims wide(values.dims.size(), 1);
      wide[std::size_t(dim)] = places.dim(0);
      at = frontend::reshaped(at, wide, l);
    }
    const auto v = inexact_operands("trapezoid_at", {y, {at, l}}, true);
    const Located pairs = part(v[0], dim, 1, 0) + part(v[0], dim, 0, -1);
    return (v[0].with(sum(difference(v[1], dim) * pairs, dim)) * 0.5).array;
  });
}

Array interp(Operand x, Operand xp, Operand fp, const InterpOptions& options) {
  const Location l = x.location;
  const Shape &places = shape_of(xp), &values = shape_of(fp);
  if (places.rank() != 1 || places.dims != values.dims || places.dim(0) == 0) {
    throw ShapeError("interp of points " + places.to_string() + " and " + values.to_string() +
                         "; give two vectors of one size, with elements",
                     l);
  }
  return composed("interp", l, [&]() -> Array {
    const frontend::TypeNode type = frontend::promote({x.array, xp.array}, l);
    const DType t = frontend::to_inexact(type.dtype);
    if (is_complex(t)) throw DTypeError("interp at complex numbers", l);
    Located at = as_type({x.array, l}, t), p = as_type({xp.array, l}, t);
    Located f = as_type({fp.array, l}, frontend::to_inexact(values.dtype));
    if (options.period) {
      const double period = std::abs(*options.period);
      at = at.with(remainder(at, at.constant(period)));
      p = p.with(remainder(p, p.constant(period)));
      const auto sorted = frontend::sorted_together({p.array, f.array}, 0, false, l, "interp");
      p = p.with(sorted[0]);
      f = f.with(sorted[1]);
      const std::int64_t n = places.dim(0);
      const auto joined = [&](const Located& before, const Located& v, const Located& after) {
        return v.with(frontend::concatenated({before.array, v.array, after.array}, 0, l));
      };
      p = joined(part(p, 0, n - 1, n) - period, p, part(p, 0, 0, 1) + period);
      f = joined(part(f, 0, n - 1, n), f, part(f, 0, 0, 1));
    }
    const std::int64_t n = p.array.shape()[0];
    const auto scalar = [&](const Located& v, std::int64_t i) {
      return v.with(frontend::reshaped(frontend::sliced_dim(v.array, 0, i, i + 1, l), {}, l));
    };
    Located out = f;
    if (n == 1) {
      out = f.with(frontend::broadcasted(scalar(f, 0).array, at.array.shape(), l));
    } else {
      const Located place{searchsorted(p, at, true), l};
      const Located high =
          place.with(clip(place, place.constant(1).array, place.constant(double(n - 1)).array));
      const Located low = high - 1.0;
      const auto pick = [&](const Located& v, const Located& i) {
        return v.with(take(v, i, 0, TakeMode::clip));
      };
      const Located p0 = pick(p, low), f0 = pick(f, low);
      const Located dx = pick(p, high) - p0, df = pick(f, high) - f0;
      // Points at one position: no slope between them, also not in derivatives.
      const Located point = dx == 0.0;
      const Located share = (at - p0) / choose(point, dx.constant(1), dx);
      out = choose(point, f0, f0 + share * df);
    }
    if (options.period) return out.array;
    const auto beyond = [&](const Located& where_, const std::optional<Array>& given,
                            std::int64_t i) {
      const Located v = given ? f.with(frontend::converted(*given, f.dtype(), l)) : scalar(f, i);
      out = choose(where_, v, out);
    };
    if (!options.extrapolate_left) beyond(at < scalar(p, 0), options.left, 0);
    if (!options.extrapolate_right) beyond(at > scalar(p, n - 1), options.right, n - 1);
    return out.array;
  });
}

}  // namespace tessera
