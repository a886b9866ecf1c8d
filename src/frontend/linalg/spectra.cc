// SPDX-License-Identifier: Apache-2.0
// eigh, eig, svd, and what follows from singular values.
#include <algorithm>
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

double epsilon_of(DType t) {
  return real_type(t) == f64 ? std::numeric_limits<double>::epsilon()
                             : double(std::numeric_limits<float>::epsilon());
}

Located converted_to(const Operand& x, DType t) {
  return {frontend::converted(x.array, t, x.location), x.location};
}

std::vector<Array> arrays_of(const std::vector<Located>& all) {
  std::vector<Array> out;
  for (const Located& x : all) out.push_back(x.array);
  return out;
}

std::vector<Array> eigen_of(const std::string& name, const Operand& a, const EighOptions& options) {
  need_square(name, shape_of(a), a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  return frontend::as_one_program(name, a.location, [&] {
    Located x = converted_to(a, t);
    if (options.symmetrize_input) x = symmetrized(x);
    return arrays_of(eigen(x, options.lower));
  });
}

/// {u, s, vh} of hermitian matrices, by their eigenvalues in descending order of magnitude.
std::vector<Located> singular_of_hermitian(const Located& x) {
  const std::vector<Located> e = eigen(symmetrized(x), true);
  const Located size = magnitude(e[0]);
  const Located order = size.with(argsort(Operand(size), -1, true));
  const Located at = order.with(expand_dims(Operand(order), -2));
  const Located u = x.with(take_along_axis(Operand(e[1]), Operand(at), -1));
  const Located w = x.with(take_along_axis(Operand(e[0]), Operand(order), -1));
  const Located turned = as_type(as_column(w.with(sign(Operand(w)))), x.dtype());
  return {u, magnitude(w), turned * adjoint(u)};
}

std::vector<Located> decomposed(const Located& x, bool full_matrices, bool hermitian) {
  return hermitian ? singular_of_hermitian(x) : singular(x, full_matrices, true);
}

}  // namespace

EighResult eigh(Operand a, const EighOptions& options) {
  const std::vector<Array> out = eigen_of("linalg.eigh", a, options);
  return {out[0], out[1]};
}

Array eigvalsh(Operand a, const EighOptions& options) {
  return eigen_of("linalg.eigvalsh", a, options)[0];
}

SvdResult svd(Operand a, const SvdOptions& options) {
  const std::string name = "linalg.svd";
  need_matrix(name, shape_of(a), a.location);
  if (options.hermitian) need_square(name, shape_of(a), a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  const std::vector<Array> out = frontend::as_one_program(name, a.location, [&] {
    return arrays_of(decomposed(converted_to(a, t), options.full_matrices, options.hermitian));
  });
  return {out[0], out[1], out[2]};
}

Array svdvals(Operand a) {
  need_matrix("linalg.svdvals", shape_of(a), a.location);
  const DType t = dtype_of("linalg.svdvals", {a.array}, a.location);
  return composed("linalg.svdvals", a.location,
                  [&] { return singular(converted_to(a, t), false, false)[0].array; });
}

// ------------------------------------------------------------------ pinv

namespace {

Array inverted(const Array& a, double rtol, bool hermitian, Location at) {
  const Located x = conjugate(Located{a, at});
  const std::vector<Located> d = decomposed(x, false, hermitian);
  const Located& s = d[1];
  const Dims dims = dims_of(s);
  const Located greatest = s.with(slice_in_dim(Operand(s), 0, 1, 1, std::int64_t(dims.size()) - 1));
  const Located kept = s > with_dims(greatest * rtol, dims);
  const Located infinite = s.constant(std::numeric_limits<double>::infinity());
  const Located safe = as_type(choose(kept, s, infinite), x.dtype());
  return times(swapped(d[2]), swapped(d[0]) / as_column(safe)).array;
}

/// By the formula of Golub and Pereyra, which holds where the rank doesn't change.
Array pinv_rule(const Array& a, double rtol, bool hermitian, Location at) {
  auto f = custom_jvp([=](Array x) { return inverted(x, rtol, hermitian, at); }, "linalg.pinv", at);
  f.def_jvp([=](std::tuple<Array> x, std::tuple<Array> dx) {
    Located m{std::get<0>(x), at}, d{std::get<0>(dx), at};
    const Located p{pinv_rule(m.array, rtol, hermitian, at), at};
    if (hermitian) {
      m = symmetrized(m);
      d = symmetrized(d);
    }
    const Located ph = adjoint(p), dh = adjoint(d);
    const auto three = [](const Located& u, const Located& v, const Located& w) {
      return times(times(u, v), w);
    };
    const Located s = three(p, ph, dh), t = three(dh, ph, p);
    const Located out = s - times(s, times(m, p)) + t - times(times(p, m), t) - three(p, d, p);
    return std::pair(p.array, out.array);
  });
  return f.call_at(at, a);
}

}  // namespace

Array pinv(Operand a, const PinvOptions& options) {
  const std::string name = "linalg.pinv";
  const Shape& shape = shape_of(a);
  need_matrix(name, shape, a.location);
  if (options.hermitian) need_square(name, shape, a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  const std::int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  const double rtol = options.rtol.value_or(10.0 * double(std::max(m, n)) * epsilon_of(t));
  return composed(name, a.location, [&] {
    const Located x = converted_to(a, t);
    if (m == 0 || n == 0)
      return with_dims(x.constant(0), joined(batch_of(shape.dims), {n, m})).array;
    return pinv_rule(x.array, rtol, options.hermitian, a.location);
  });
}

// ------------------------------------------------------------------ lstsq

LstsqResult lstsq(Operand a, Operand b, std::optional<double> rcond) {
  const Location at = where_of(a, b);
  const std::string name = "linalg.lstsq";
  const Shape &matrix = shape_of(a), &given = shape_of(b);
  if (matrix.rank() != 2) misfit(name, {matrix, given}, "the first must be a matrix [m, n]", at);
  if (given.rank() != 1 && given.rank() != 2) {
    misfit(name, {matrix, given}, "the second must be [m] or [m, k]", at);
  }
  const std::int64_t m = matrix.dim(0), n = matrix.dim(1);
  if (given.dim(0) != m) {
    misfit(name, {matrix, given},
           "the matrix has " + std::to_string(m) + " rows, the right-hand side " +
               std::to_string(given.dim(0)),
           at);
  }
  const DType t = dtype_of(name, {a.array, b.array}, at);
  const double bound = !rcond       ? epsilon_of(t) * double(std::max(m, n))
                       : *rcond < 0 ? epsilon_of(t)
                                    : *rcond;
  const std::vector<Array> out = frontend::as_one_program(name, at, [&] {
    const Located x = converted_to({a.array, at}, t);
    Located rhs = converted_to({b.array, at}, t);
    const bool vector = given.rank() == 1;
    if (vector) rhs = as_column(rhs);
    const std::int64_t k = columns_of(rhs);
    Located found = with_dims(x.constant(0), {n, k}), s = x, rank = x;
    if (m == 0 || n == 0) {
      s = x.with(zeros({0}, real_type(t), at));
      rank = x.with(zeros({}, s32, at));
    } else {
      const std::vector<Located> d = singular(x, false, true);
      s = d[1];
      const Located greatest = s.with(slice_in_dim(Operand(s), 0, 1, 1, 0));
      const Located kept = (s > 0) & (s >= with_dims(greatest * bound, dims_of(s)));
      rank = s.with(sum(Operand(as_type(kept, s32))));
      const Located safe = choose(kept, s, s.constant(1));
      const Located inverse = choose(kept, 1.0 / safe, s.constant(0));
      const Located inner = times(adjoint(d[0]), rhs);
      found = times(adjoint(d[2]), as_type(as_column(inverse), t) * inner);
    }
    const Located rest = magnitude(rhs - times(x, found));
    const Located residuals = x.with(sum(Operand(rest * rest), 0));
    const Array result = vector ? frontend::reshaped(found.array, {n}, at) : found.array;
    return std::vector<Array>{result, residuals.array, rank.array, s.array};
  });
  return {out[0], out[1], out[2], out[3]};
}

Array matrix_rank(Operand a, const MatrixRankOptions& options) {
  const std::string name = "linalg.matrix_rank";
  const Shape& shape = shape_of(a);
  const DType t = dtype_of(name, {a.array}, a.location);
  if (options.hermitian) need_square(name, shape, a.location);
  return composed(name, a.location, [&] {
    const Located x = converted_to(a, t);
    if (shape.rank() < 2) {
      return as_type(x.with(any(Operand(x != x.constant(0)))), s32).array;
    }
    const Located s =
        options.hermitian ? singular_of_hermitian(x)[1] : singular(x, false, false)[0];
    const Dims dims = dims_of(s);
    if (dims.back() == 0) return zeros(batch_of(dims, 1), s32, a.location);
    const std::int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
    const Located bound = options.rtol ? with_dims(s.constant(*options.rtol), dims)
                                       : with_dims(s.with(max(Operand(s), -1, true)) *
                                                       (double(std::max(m, n)) * epsilon_of(t)),
                                                   dims);
    return sum(Operand(as_type(s > bound, s32)), -1);
  });
}

// ------------------------------------------------------------------ eig

namespace {

/// {w, v}; only {w} without vectors.
std::vector<Array> general_eigen(const std::string& name, const Operand& a, bool vectors) {
  need_square(name, shape_of(a), a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  return frontend::as_one_program(name, a.location, [&] {
    const Located x = converted_to(a, t);
    const std::int64_t n = rows_of(x);
    const DType both = real_type(t) == f64 ? c128 : c64;
    std::vector<LapackResult> results{{t, {n}}};
    if (!is_complex(t)) results.push_back({t, {n}});
    results.insert(results.end(), {{both, {n, n}}, {both, {n, n}}, {s32, {}}});
    const std::vector<Located> out =
        call_lapack("geev", {x}, results,
                    {{"compute_left", std::uint8_t('N')},
                     {"compute_right", std::uint8_t(vectors ? 'V' : 'N')}});
    const Located& info = out.back();
    const Located ok = info == info.constant(0);
    const Located w =
        is_complex(t) ? out[0] : x.with(tessera::complex(Operand(out[0]), Operand(out[1])));
    std::vector<Array> all{nan_unless(ok, w).array};
    if (vectors) all.push_back(nan_unless(ok, out[out.size() - 2]).array);
    return all;
  });
}

}  // namespace

EigResult eig(Operand a) {
  const std::vector<Array> out = general_eigen("linalg.eig", a, true);
  return {out[0], out[1]};
}

Array eigvals(Operand a) { return general_eigen("linalg.eigvals", a, false)[0]; }

}  // namespace tessera::linalg
