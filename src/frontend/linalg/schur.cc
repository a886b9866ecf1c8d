// SPDX-License-Identifier: Apache-2.0
// Schur and polar forms, square roots, derivatives of exponentials, tridiagonal systems.
#include <tessera/control_flow.h>
#include <tessera/derivatives.h>
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>

#include "src/frontend/linalg/matrices.h"
#include "src/frontend/ops/moves.h"

namespace tessera::linalg {

using frontend::as_one_program;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

/// {t, z}; NaN where LAPACK finds none.
std::vector<Located> schur_form(const Located& x) {
  const std::int64_t n = rows_of(x);
  const DType t = x.dtype();
  std::vector<LapackResult> results{{t, {n, n}}, {t, {n, n}}, {t, {n}}};
  if (!is_complex(t)) results.push_back({t, {n}});
  results.insert(results.end(), {{s32, {}}, {s32, {}}});
  const std::vector<Located> out =
      call_lapack("gees", {x}, results, {{"mode", std::uint8_t('V')}, {"sort", std::uint8_t('N')}});
  const Located ok = out.back() == out.back().constant(0);
  return {nan_unless(ok, out[0]), nan_unless(ok, out[1])};
}

DType complex_of(DType t) { return real_type(t) == f64 ? c128 : c64; }

/// Square roots of upper triangular matrices, one diagonal after the other: where u u = t,
/// u[i, j] (u[i, i] + u[j, j]) is t[i, j] without the products of entries nearer to the diagonal.
Located root_of_triangle(const Located& t) {
  const std::int64_t n = rows_of(t);
  const Located root = t.with(sqrt(Operand(diagonal_of(t))));
  const Located rows = with_dims(as_column(root), dims_of(t));
  const Located sums = rows + swapped(rows);
  const Dims plane{n, n};
  const Located offset =
      t.with(iota(s32, plane, 1, t.location)) - t.with(iota(s32, plane, 0, t.location));
  const Located zero = t.constant(0);
  Located u = choose(offset == 0.0, rows, zero);
  if (n < 2) return u;
  const auto step = [&](Array d, Array so_far) {
    const Located strict = choose(offset > 0.0, t.with(so_far), zero);
    const Located rest = t - times(strict, strict);
    const Located entries = choose(rest == zero, zero, rest / sums);
    return choose(offset == offset.with(d), entries, t.with(so_far)).array;
  };
  return u.with(fori_loop(1, n, step, u.array));
}

}  // namespace

SchurResult schur(Operand a, bool complex_output) {
  const std::string name = "linalg.schur";
  need_square(name, shape_of(a), a.location);
  DType t = dtype_of(name, {a.array}, a.location);
  if (complex_output) t = complex_of(t);
  const std::vector<Array> out = as_one_program(name, a.location, [&] {
    const auto form = schur_form({frontend::converted(a.array, t, a.location), a.location});
    return std::vector<Array>{form[0].array, form[1].array};
  });
  return {out[0], out[1]};
}

Array sqrtm(Operand a) {
  const std::string name = "linalg.sqrtm";
  need_square(name, shape_of(a), a.location);
  const DType t = complex_of(dtype_of(name, {a.array}, a.location));
  return composed(name, a.location, [&] {
    const Located x{frontend::converted(a.array, t, a.location), a.location};
    if (x.array.size() == 0) return x.array;
    const auto form = schur_form(x);
    return times(times(form[1], root_of_triangle(form[0])), adjoint(form[1])).array;
  });
}

PolarResult polar(Operand a, bool left) {
  const std::string name = "linalg.polar";
  need_matrix(name, shape_of(a), a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  const std::vector<Array> out = as_one_program(name, a.location, [&] {
    const Located x{frontend::converted(a.array, t, a.location), a.location};
    const std::vector<Located> d = singular(x, false, true);
    const Located s = as_type(as_column(d[1]), t);
    const Located side = left ? adjoint(d[0]) : d[2];
    return std::vector<Array>{times(d[0], d[2]).array, times(adjoint(side), s * side).array};
  });
  return {out[0], out[1]};
}

std::pair<Array, Array> expm_frechet(Operand a, Operand e) {
  const Location at = where_of(a, e);
  const std::string name = "linalg.expm_frechet";
  need_square(name, shape_of(a), at);
  if (shape_of(a).dims != shape_of(e).dims) {
    misfit(name, {shape_of(a), shape_of(e)}, "both must have the same shape", at);
  }
  const DType t = dtype_of(name, {a.array, e.array}, at);
  const std::vector<Array> out = as_one_program(name, at, [&] {
    const auto [value, derivative] = jvp(
        [&](Array x) {
          return expm({x, at});
        },
        std::tuple(frontend::converted(a.array, t, at)),
        std::tuple(frontend::converted(e.array, t, at)));
    return std::vector<Array>{value, derivative};
  });
  return {out[0], out[1]};
}

Array tridiagonal_solve(Operand dl, Operand d, Operand du, Operand b) {
  const Location at = b.location.known() ? b.location : d.location;
  const std::string name = "linalg.tridiagonal_solve";
  const std::vector<Shape> shapes{shape_of(dl), shape_of(d), shape_of(du), shape_of(b)};
  const auto refuse = [&] {
    misfit(name, shapes, "valid are diagonals [.., n] and a right-hand side [n] or [.., n, k]", at);
  };
  const std::int64_t own = shapes[3].rank() == 1 ? 1 : 2;
  if (shapes[3].rank() == 0) refuse();
  const std::int64_t n = shapes[3].dim(shapes[3].rank() - own);
  Dims batch = batch_of(shapes[3].dims, std::size_t(own));
  for (std::size_t i = 0; i < 3; ++i) {
    if (shapes[i].rank() == 0 || shapes[i].dims.back() != n) refuse();
    batch = frontend::broadcast_shapes(name, batch, batch_of(shapes[i].dims, 1), at);
  }
  const DType t = dtype_of(name, {dl.array, d.array, du.array, b.array}, at);
  return composed(name, at, [&] {
    const auto diagonal = [&](const Operand& x) {
      return with_dims({frontend::converted(x.array, t, at), at}, joined(batch, {n}));
    };
    Located rhs{frontend::converted(b.array, t, at), at};
    if (own == 1) rhs = as_column(rhs);
    rhs = with_batch(rhs, batch);
    const std::int64_t k = columns_of(rhs);
    if (rhs.array.size() == 0) {
      return own == 1 ? frontend::reshaped(rhs.array, joined(batch, {n}), at) : rhs.array;
    }
    const std::vector<Located> out =
        call_lapack("gtsv", {diagonal(dl), diagonal(d), diagonal(du), rhs},
                    {{t, {n}}, {t, {n}}, {t, {n}}, {t, {n, k}}, {s32, {}}}, {}, 1);
    const Located x = nan_unless(out[4] == out[4].constant(0), out[3]);
    return own == 1 ? frontend::reshaped(x.array, joined(batch, {n}), at) : x.array;
  });
}

}  // namespace tessera::linalg
