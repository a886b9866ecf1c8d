// SPDX-License-Identifier: Apache-2.0
// solve, inv and triangular systems.
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

Located in_dtype(const Operand& x, DType t, Location location) {
  return {frontend::converted(x.array, t, location), location};
}

/// ShapeError unless b [n] or [.., n, k] fits a [.., n, n].
void need_rhs(const std::string& name, const Shape& a, const Shape& b, Location location) {
  need_square(name, a, location);
  const std::int64_t n = a.dim(a.rank() - 1);
  if (b.rank() == 0) misfit(name, {a, b}, "the right-hand side must not be a scalar", location);
  const std::int64_t have = b.rank() == 1 ? b.dim(0) : b.dim(b.rank() - 2);
  if (have != n) {
    std::string why = "the matrices have " + std::to_string(n) + " rows, the right-hand side " +
                      std::to_string(have) + "; valid are [" + std::to_string(n) + "] and [.., " +
                      std::to_string(n) + ", k]";
    if (b.rank() + 1 == a.rank() && b.dim(b.rank() - 1) == n) {
      why += " (give a batch of vectors as [.., n, 1])";
    }
    misfit(name, {a, b}, why, location);
  }
}

/// f(b as [.., n, k]), a vector again if b is one.
template <class F>
Array with_columns(const Located& b, F f) {
  if (dims_of(b).size() > 1) return f(b).array;
  const Located x = f(as_column(b));
  return frontend::reshaped(x.array, batch_of(dims_of(x), 1), x.location);
}

/// Solves with a triangle, the batch dims broadcast.
Located broadcast_solved(const std::string& name, const Located& a, const Located& b,
                         const Triangle& triangle) {
  const Dims batch =
      frontend::broadcast_shapes(name, batch_of(dims_of(a)), batch_of(dims_of(b)), a.location);
  return solved(with_batch(a, batch), with_batch(b, batch), triangle);
}

}  // namespace

Array solve(Operand a, Operand b) {
  const Location at = where_of(a, b);
  need_rhs("linalg.solve", shape_of(a), shape_of(b), at);
  const DType t = dtype_of("linalg.solve", {a.array, b.array}, at);
  return composed("linalg.solve", at, [&] {
    return with_columns(in_dtype(b, t, at),
                        [&](const Located& rhs) { return solved(in_dtype(a, t, at), rhs); });
  });
}

Array inv(Operand a) {
  const Location at = a.location;
  need_square("linalg.inv", shape_of(a), at);
  const DType t = dtype_of("linalg.inv", {a.array}, at);
  return composed("linalg.inv", at, [&] {
    const Located x = in_dtype(a, t, at);
    return solved(x, identity(x, rows_of(x))).array;
  });
}

Array triangular_solve(Operand a, Operand b, const TriangularSolveOptions& options) {
  const Location at = where_of(a, b);
  const std::string name = "linalg.triangular_solve";
  const Shape &matrix = shape_of(a), &given = shape_of(b);
  need_square(name, matrix, at);
  const std::int64_t n = matrix.dim(matrix.rank() - 1);
  const bool vector = given.rank() == 1;
  if (given.rank() == 0 || given.rank() != (vector ? matrix.rank() - 1 : matrix.rank()) ||
      batch_of(matrix.dims) != batch_of(given.dims, vector ? 1 : 2)) {
    misfit(name, {matrix, given}, "both need the same leading dims", at);
  }
  const std::int64_t have =
      vector ? given.dim(0) : given.dim(given.rank() - (options.left_side ? 2 : 1));
  if (have != n) {
    misfit(name, {matrix, given},
           "the matrices have " + std::to_string(n) + " rows, the right-hand side " +
               std::to_string(have) + (options.left_side ? " rows" : " columns"),
           at);
  }
  const DType t = dtype_of(name, {a.array, b.array}, at);
  return composed(name, at, [&] {
    Located rhs = in_dtype(b, t, at);
    const Triangle triangle{options.left_side, options.lower, options.unit_diagonal,
                            options.transpose_a, options.conjugate_a};
    if (!vector) return solved(in_dtype(a, t, at), rhs, triangle).array;
    rhs = rhs.with(frontend::reshaped(rhs.array, options.left_side ? Dims{n, 1} : Dims{1, n}, at));
    return frontend::reshaped(solved(in_dtype(a, t, at), rhs, triangle).array, {n}, at);
  });
}

Array solve_triangular(Operand a, Operand b, const SolveTriangularOptions& options) {
  const Location at = where_of(a, b);
  const std::string name = "linalg.solve_triangular";
  need_rhs(name, shape_of(a), shape_of(b), at);
  const DType t = dtype_of(name, {a.array, b.array}, at);
  const Triangle triangle{true, options.lower, options.unit_diagonal, options.trans != Trans::none,
                          options.trans == Trans::adjoint};
  return composed(name, at, [&] {
    return with_columns(in_dtype(b, t, at), [&](const Located& rhs) {
      return broadcast_solved(name, in_dtype(a, t, at), rhs, triangle);
    });
  });
}

// ------------------------------------------------------------------ Cholesky

namespace {

/// The factor from one triangle.
Located cholesky_factor(const Located& a, bool lower) {
  const std::vector<Array> operands{a.array};
  ir::CholeskyAttrs attrs;
  attrs.lower = lower;
  return a.with(
      frontend::apply(ir::Opcode::cholesky, operands, attrs, a.location, "linalg.cholesky"));
}

}  // namespace

Array cholesky(Operand a, const CholeskyOptions& options) {
  const Location at = a.location;
  need_square("linalg.cholesky", shape_of(a), at);
  const DType t = dtype_of("linalg.cholesky", {a.array}, at);
  return composed("linalg.cholesky", at, [&] {
    Located x = in_dtype(a, t, at);
    if (options.symmetrize_input) x = symmetrized(x);
    return cholesky_factor(x, !options.upper).array;
  });
}

CholeskyFactor cho_factor(Operand a, bool lower) {
  const Location at = a.location;
  need_square("linalg.cho_factor", shape_of(a), at);
  const DType t = dtype_of("linalg.cho_factor", {a.array}, at);
  return {composed("linalg.cho_factor", at,
                   [&] { return cholesky_factor(in_dtype(a, t, at), lower).array; }),
          lower};
}

Array cho_solve(const CholeskyFactor& factor, Operand b) {
  const Location at = b.location;
  const std::string name = "linalg.cho_solve";
  const Operand c(factor.factor, at);
  need_rhs(name, shape_of(c), shape_of(b), at);
  const DType t = dtype_of(name, {c.array, b.array}, at);
  const bool lower = factor.lower;
  return composed(name, at, [&] {
    const Located l = in_dtype(c, t, at);
    return with_columns(in_dtype(b, t, at), [&](const Located& rhs) {
      const Located x = broadcast_solved(name, l, rhs, {true, lower, false, !lower, !lower});
      return broadcast_solved(name, l, x, {true, lower, false, lower, lower});
    });
  });
}

// ------------------------------------------------------------------ LU

LuResult lu(Operand a) {
  const Location at = a.location;
  need_matrix("linalg.lu", shape_of(a), at);
  const DType t = dtype_of("linalg.lu", {a.array}, at);
  const std::vector<Array> out = frontend::as_one_program("linalg.lu", at, [&] {
    const Located x = in_dtype(a, t, at);
    const Factors f = factored(x);
    const Dims batch = batch_of(dims_of(x));
    const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
    // Entry [i, j] of p says whether row j of l u is row i of the matrix.
    const Dims square = joined(batch, {m, m});
    const Located rows = x.with(iota(s32, square, std::int64_t(batch.size()), at));
    const Located order =
        f.permutation.with(frontend::reshaped(f.permutation.array, joined(batch, {1, m}), at));
    const Located p = as_type(with_dims(order, square) == rows, real_type(t));
    const Located left = block(f.lu, 0, m, 0, k);
    const Located unit = x.with(eye(m, k, 0, t, at));
    const Located l = left.with(tril(Operand(left), -1)) + unit;
    const Located top = block(f.lu, 0, k, 0, n);
    return std::vector<Array>{p.array, l.array, triu(Operand(top))};
  });
  return {out[0], out[1], out[2]};
}

LuFactors lu_factor(Operand a) {
  const Location at = a.location;
  need_matrix("linalg.lu_factor", shape_of(a), at);
  const DType t = dtype_of("linalg.lu_factor", {a.array}, at);
  const std::vector<Array> out = frontend::as_one_program("linalg.lu_factor", at, [&] {
    const Factors f = factored(in_dtype(a, t, at));
    return std::vector<Array>{f.lu.array, f.pivots.array};
  });
  return {out[0], out[1]};
}

Array lu_solve(const LuFactors& factors, Operand b, Trans trans) {
  const Location at = b.location;
  const std::string name = "linalg.lu_solve";
  const Operand lu(factors.lu, at), pivots(factors.pivots, at);
  const Shape &matrix = shape_of(lu), &swaps = shape_of(pivots);
  need_rhs(name, matrix, shape_of(b), at);
  if (!is_integer(swaps.dtype) || swaps.dims != batch_of(matrix.dims, 1)) {
    misfit(name, {matrix, swaps},
           "the pivots must be integers of the shape " + to_string(batch_of(matrix.dims, 1)), at);
  }
  const DType t = dtype_of(name, {lu.array, b.array}, at);
  return composed(name, at, [&] {
    const Located f = in_dtype(lu, t, at);
    const std::int64_t n = rows_of(f);
    const Located order = permutation_of(in_dtype(pivots, s32, at), n);
    return with_columns(in_dtype(b, t, at), [&](const Located& rhs) {
      const Dims batch =
          frontend::broadcast_shapes(name, batch_of(matrix.dims), batch_of(dims_of(rhs)), at);
      return solved(with_batch(f, batch), with_dims(order, joined(batch, {n})),
                    with_batch(rhs, batch), int(trans));
    });
  });
}

}  // namespace tessera::linalg
