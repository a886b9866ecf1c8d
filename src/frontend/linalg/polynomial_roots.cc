// SPDX-License-Identifier: Apache-2.0
// Polynomials by linear algebra: their zeros as eigenvalues, fits as least squares.
#include <limits>

#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/numeric.h>
#include <tessera/ops/order.h>
#include <tessera/ops/products.h>
#include <tessera/ops/sampled.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/linalg/matrices.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;

namespace {

/// Eigenvalues of the companion matrix of a polynomial whose first coefficient isn't 0.
Located companion_eigenvalues(const Located& p) {
  const Location l = p.location;
  const std::int64_t n = p.array.shape()[0];
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return p.with(frontend::sliced_dim(p.array, 0, from, to, l, "roots"));
  };
  const Located row = -part(1, n) / part(0, 1);
  Array matrix = frontend::reshaped(row.array, {1, n - 1}, l);
  if (n > 2) {
    matrix = frontend::concatenated({matrix, eye(n - 2, n - 1, 0, p.dtype(), l)}, 0, l, "roots");
  }
  return p.with(linalg::eigvals({matrix, l}));
}

}  // namespace

Array roots(Operand p, bool strip_zeros) {
  const Location l = p.location;
  const Shape& shape = shape_of(p);
  if (shape.rank() > 1) {
    throw ShapeError("roots of " + shape.to_string() + "; give a vector of coefficients", l);
  }
  const DType t = frontend::matrices::dtype_of("roots", {p.array}, l);
  std::int64_t first = 0;
  const std::int64_t n = shape.element_count();
  if (strip_zeros && n >= 2) {
    if (p.array.is_tracer()) {
      throw TracerError(
          "roots: how many leading coefficients are 0 depends on the values of the "
          "traced " +
              p.array.type_string() + "; choose strip_zeros = false",
          l);
    }
    const std::vector<bool> zero = equal(p, {Array(0), l}).to_vector<bool>(l);
    while (first < n && zero[std::size_t(first)]) ++first;
  }
  return composed("roots", l, [&] {
    const DType result = real_type(t) == f64 ? c128 : c64;
    if (n - first < 2) return zeros({0}, result, l);
    Located c{frontend::converted(ravel(p), t, l), l};
    if (strip_zeros) {
      return companion_eigenvalues(c.with(frontend::sliced_dim(c.array, 0, first, n, l, "roots")))
          .array;
    }
    // Leading zeros are moved to the end, where each is a root 0; these become NaN.
    const Located is_zero = c == c.constant(0);
    const Located none = c.with(all(Operand(is_zero)));
    const Located leading =
        frontend::choose(none, none.with(frontend::program_constant(s32, double(n))),
                         none.with(argmin(Operand(frontend::as_type(is_zero, s32)))));
    c = frontend::choose(none, c.constant(1), c);
    const Located places = leading.with(iota(s32, {n}, 0, l)) + leading;
    c = c.with(
        take(Operand(c), remainder(Operand(places), Operand(Array(n), l)), 0, TakeMode::clip));
    const Located found = companion_eigenvalues(c);
    const auto sorted =
        sort_key_val(equal(Operand(found), Operand(found.constant(0))), Operand(found));
    const Located kept = leading.with(iota(s32, {n - 1}, 0, l)) < double(n - 1) - leading;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Array nans =
        frontend::program_constant(Literal::scalar(result, std::complex<double>(nan, nan)));
    return where(Operand(kept), {sorted.second, l}, {nans, l});
  });
}

Array poly(Operand zeros) {
  const Location l = zeros.location;
  const Shape& shape = shape_of(zeros);
  const bool matrix = shape.rank() == 2 && shape.dim(0) == shape.dim(1) && shape.dim(0) > 0;
  if (shape.rank() > 1 && !matrix) {
    throw ShapeError("poly of " + shape.to_string() + "; give a vector of zeros or a square matrix",
                     l);
  }
  return composed("poly", l, [&] {
    const DType t = frontend::to_inexact(shape.dtype);
    Located at{frontend::converted(zeros.array, t, l), l};
    at = at.with(matrix ? linalg::eigvals(Operand(at)) : ravel(Operand(at)));
    const std::int64_t n = at.array.shape()[0];
    if (n == 0) return ones({}, at.dtype(), l);
    const Array zero = frontend::broadcasted(frontend::program_constant(at.dtype(), 0), {1}, l);
    Located p = at.with(ones({1}, at.dtype(), l));
    for (std::int64_t k = 0; k < n; ++k) {
      const Located z = at.with(frontend::sliced_dim(at.array, 0, k, k + 1, l, "poly"));
      const Located higher = p.with(frontend::concatenated({p.array, zero}, 0, l, "poly"));
      const Located lower = p.with(frontend::concatenated({zero, (z * p).array}, 0, l, "poly"));
      p = higher - lower;
    }
    return p.array;
  });
}

// ------------------------------------------------------------------ polyfit

namespace {

/// The least squares problem that a fit is, with columns scaled to length 1.
struct Fit {
  Located columns, scale;
  linalg::LstsqResult solution;
  Located coefficients;
  double rcond = 0;
};

void check_fit(const Operand& x, const Operand& y, std::int64_t degree,
               const PolyfitOptions& options, Location l) {
  if (degree < 0) {
    throw ValueError("polyfit of degree " + std::to_string(degree) + "; valid are 0 and more", l);
  }
  const Shape &at = shape_of(x), &given = shape_of(y);
  if (at.rank() != 1 || at.dim(0) == 0) {
    throw ShapeError("polyfit at x " + at.to_string() + "; give a vector with elements", l);
  }
  const std::string n = std::to_string(at.dim(0));
  if (given.rank() < 1 || given.rank() > 2 || given.dim(0) != at.dim(0)) {
    throw ShapeError("polyfit of y " + given.to_string() + " at x " + at.to_string() + "; give [" +
                         n + "] or [" + n + ", k]",
                     l);
  }
  if (options.w && options.w->shape(l) != at.dims) {
    throw ShapeError("polyfit with weights " + options.w->type_string() + " at x " +
                         at.to_string() + "; give [" + n + "]",
                     l);
  }
}

Fit fitted(const Operand& x, const Operand& y, std::int64_t degree, const PolyfitOptions& options,
           Location l) {
  std::vector<Array> given{x.array, y.array};
  if (options.w) given.push_back(*options.w);
  const DType t = frontend::matrices::dtype_of("polyfit", given, l);
  const Located at{frontend::converted(x.array, t, l), l};
  Located rhs = at.with(frontend::converted(y.array, t, l));
  const std::int64_t n = shape_of(x).dim(0);
  Located lhs = at.with(linalg::vander(Operand(at), degree + 1));
  if (options.w) {
    const Located w = at.with(frontend::converted(*options.w, t, l));
    const Located column = w.with(frontend::reshaped(w.array, {n, 1}, l));
    lhs = lhs * column;
    rhs = rhs * (shape_of(y).rank() == 2 ? column : w);
  }
  const Located scale = lhs.with(sqrt({sum(Operand(lhs * lhs), 0), l}));
  lhs = lhs / scale;
  const double rcond = options.rcond.value_or(double(n) * finfo(t, l).eps);
  const linalg::LstsqResult solution = linalg::lstsq(Operand(lhs), Operand(rhs), rcond);
  const Located c = lhs.with(solution.x);
  const Located divisors =
      c.array.ndim() == 2 ? scale.with(frontend::reshaped(scale.array, {degree + 1, 1}, l)) : scale;
  return {lhs, scale, solution, c / divisors, rcond};
}

}  // namespace

Array polyfit(Operand x, Operand y, std::int64_t degree, const PolyfitOptions& options) {
  const Location l = where_of(x, y);
  check_fit(x, y, degree, options, l);
  return composed("polyfit", l,
                  [&] { return fitted(x, y, degree, options, l).coefficients.array; });
}

PolyfitResult polyfit_full(Operand x, Operand y, std::int64_t degree,
                           const PolyfitOptions& options) {
  const Location l = where_of(x, y);
  check_fit(x, y, degree, options, l);
  double rcond = 0;
  const std::vector<Array> out = as_one_program("polyfit", l, [&] {
    const Fit fit = fitted(x, y, degree, options, l);
    rcond = fit.rcond;
    return std::vector<Array>{fit.coefficients.array, fit.solution.residuals, fit.solution.rank,
                              fit.solution.s};
  });
  return {out[0], out[1], out[2], out[3], rcond};
}

std::pair<Array, Array> polyfit_cov(Operand x, Operand y, std::int64_t degree,
                                    const PolyfitOptions& options, bool scaled) {
  const Location l = where_of(x, y);
  check_fit(x, y, degree, options, l);
  const std::int64_t n = shape_of(x).dim(0), order = degree + 1;
  if (scaled && n <= order) {
    throw ValueError("polyfit_cov of " + std::to_string(n) + " samples with " +
                         std::to_string(order) +
                         " coefficients: scaled covariances need more samples than coefficients",
                     l);
  }
  const std::vector<Array> out = as_one_program("polyfit", l, [&] {
    const Fit fit = fitted(x, y, degree, options, l);
    const Located base = fit.columns.with(
        linalg::inv({matmul({swapaxes(Operand(fit.columns), 0, 1), l}, Operand(fit.columns)), l}));
    const Located c = base / base.with(outer(Operand(fit.scale), Operand(fit.scale)));
    Located factor = scaled ? c.with(fit.solution.residuals) / double(n - order)
                            : c.with(frontend::program_constant(c.dtype(), 1));
    if (fit.coefficients.array.ndim() == 1)
      return std::vector<Array>{fit.coefficients.array, (c * factor).array};
    const Located cube = c.with(frontend::reshaped(c.array, {order, order, 1}, l));
    return std::vector<Array>{fit.coefficients.array, (cube * factor).array};
  });
  return {out[0], out[1]};
}

}  // namespace tessera
