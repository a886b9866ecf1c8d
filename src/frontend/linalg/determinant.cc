// SPDX-License-Identifier: Apache-2.0
// det and slogdet.
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

Located over_last(const Located& x, Array (*reduce)(Operand, Axes, const ReduceOptions&)) {
  return x.with(reduce(Operand(x), -1, {}));
}

Located per_matrix(const Located& x) { return x.with(trace(Operand(x), 0, -2, -1)); }

/// Number of rows that were exchanged, and of diagonal entries that `flips` marks: -1 if it is odd.
Located parity_sign(const Factors& f, const Located* flips, DType dtype) {
  const Dims dims = dims_of(f.pivots);
  const Located places =
      f.pivots.with(iota(s32, dims, std::int64_t(dims.size()) - 1, f.pivots.location));
  Located odd = as_type(f.pivots != places, s32);
  if (flips) odd = odd + as_type(*flips, s32);
  const Located count = over_last(odd, sum);
  return as_type((count & count.constant(1)) * -2 + 1, dtype);
}

using Pair = std::pair<Array, Array>;

Located product_2x2(const Located& a) {
  return entry(a, 0, 0) * entry(a, 1, 1) - entry(a, 0, 1) * entry(a, 1, 0);
}

/// Of f [..]: sign, and logarithm of the magnitude.
Pair of_number(const Located& det) {
  const Located size = magnitude(det);
  return {sign(Operand(det)), log(Operand(size))};
}

Pair sign_and_log(const Located& a) {
  const std::int64_t n = rows_of(a);
  if (n == 1) return of_number(entry(a, 0, 0));
  if (n == 2) return of_number(product_2x2(a));
  const Factors f = factored(a);
  const Located diagonal = diagonal_of(f.lu);
  const Located size = magnitude(diagonal);
  const Located zero = diagonal.with(any(Operand(diagonal == diagonal.constant(0)), -1));
  Located unit = a.constant(1);
  if (is_complex(a.dtype())) {
    unit =
        over_last(diagonal / as_type(size, a.dtype()), prod) * parity_sign(f, nullptr, a.dtype());
  } else {
    const Located negative = diagonal < 0;
    unit = parity_sign(f, &negative, a.dtype());
  }
  const Located total = over_last(size.with(log(Operand(size))), sum);
  const Located none = total.constant(-std::numeric_limits<double>::infinity());
  return {choose(zero, unit.constant(0), unit).array, choose(zero, none, total).array};
}

/// The tangent is the trace of A^-1 dA: its real part that of the logarithm, the rest turns the
/// sign.
Pair slogdet_rule(const Array& a, Location at) {
  auto f = custom_jvp([at](Array x) { return sign_and_log(Located{x, at}); }, "linalg.slogdet", at);
  f.def_jvp([at](std::tuple<Array> x, std::tuple<Array> dx) {
    const Located matrix{std::get<0>(x), at};
    const Pair out = slogdet_rule(matrix.array, at);
    const Located sign = matrix.with(out.first);
    const Located turn = per_matrix(solved(matrix, matrix.with(std::get<0>(dx))));
    if (!is_complex(matrix.dtype())) {
      return std::pair(out, Pair(zeros_like(Operand(sign)), turn.array));
    }
    const Located real = real_part(turn);
    return std::pair(out, Pair(((turn - as_type(real, turn.dtype())) * sign).array, real.array));
  });
  return f.call_at(at, a);
}

Located product_3x3(const Located& a) {
  const auto e = [&](int i, int j) { return entry(a, i, j); };
  return e(0, 0) * e(1, 1) * e(2, 2) + e(0, 1) * e(1, 2) * e(2, 0) + e(0, 2) * e(1, 0) * e(2, 1) -
         e(0, 2) * e(1, 1) * e(2, 0) - e(0, 0) * e(1, 2) * e(2, 1) - e(0, 1) * e(1, 0) * e(2, 2);
}

/// det(A) and det(A) A^-1 B, also where det(A) is 0 by one vanishing pivot, the last one: the last
/// row of U is scaled by the determinant instead of divided by the pivot. With two or more there is
/// nothing left: zeros.
std::pair<Located, Located> cofactor_solved(const Located& a, const Located& b) {
  const std::int64_t n = rows_of(a);
  if (n == 1) return {entry(a, 0, 0), b};
  const Factors f = factored(a);
  const Located sign = parity_sign(f, nullptr, a.dtype());
  const Located partial = a.with(cumprod(Operand(diagonal_of(f.lu)), -1)) * as_column(sign);
  const auto up_to = [&](std::int64_t k) {
    const Located p = as_column(partial);  // [.., n, 1]
    return block(p, k, k + 1, 0, 1);
  };
  const Located whole = up_to(n - 1), before = up_to(n - 2);  // [.., 1, 1]
  const Dims dims = dims_of(a);
  const auto dim = std::int64_t(dims.size());
  const Located rows = a.with(iota(s32, dims, dim - 2, a.location));
  const Located columns = a.with(iota(s32, dims, dim - 1, a.location));
  const Located last = rows == rows.constant(double(n - 1));
  const Located corner = last & (columns == columns.constant(double(n - 1)));
  const Located lu = choose(corner, with_dims(1.0 / before, dims), f.lu);
  // Whether more than the last pivot vanishes.
  Located probe =
      solved(lu, with_dims(a.constant(1), joined(batch_of(dims), {n, 1})), {.lower = false});
  probe = a.with(all(Operand(a.with(isfinite(Operand(probe)))), Axes({-2, -1}), true));
  const Located fine = with_dims(probe, dims_of(b));
  const Located none = b.constant(0);
  Located x = choose(fine, b, none);
  x = solved(lu, take_rows(x, f.permutation), {.lower = true, .unit = true});
  const Located bottom =
      b.with(iota(s32, dims_of(b), dim - 2, b.location)) == rows.constant(double(n - 1));
  x = choose(bottom, x, x * whole);
  x = choose(fine, solved(lu, x, {.lower = false}), none);
  return {a.with(frontend::reshaped(whole.array, batch_of(dims), a.location)), x};
}

Array det_rule(const Array& a, Location at) {
  auto f = custom_jvp(
      [at](Array x) {
        const Located matrix{x, at};
        const Pair out = sign_and_log(matrix);
        const Located size = matrix.with(exp(Operand(matrix.with(out.second))));
        return (matrix.with(out.first) * as_type(size, matrix.dtype())).array;
      },
      "linalg.det", at);
  f.def_jvp([at](std::tuple<Array> x, std::tuple<Array> dx) {
    const auto [det, solution] =
        cofactor_solved(Located{std::get<0>(x), at}, Located{std::get<0>(dx), at});
    return std::pair(det.array, per_matrix(solution).array);
  });
  return f.call_at(at, a);
}

}  // namespace

Array det(Operand a) {
  const Location at = a.location;
  need_square("linalg.det", shape_of(a), at);
  const DType t = dtype_of("linalg.det", {a.array}, at);
  return composed("linalg.det", at, [&] {
    const Located x{frontend::converted(a.array, t, at), at};
    const std::int64_t n = rows_of(x);
    if (n == 0) return with_dims(x.constant(1), batch_of(dims_of(x))).array;
    if (n == 1) return entry(x, 0, 0).array;
    if (n == 2) return product_2x2(x).array;
    if (n == 3) return product_3x3(x).array;
    return det_rule(x.array, at);
  });
}

SlogdetResult slogdet(Operand a) {
  const Location at = a.location;
  need_square("linalg.slogdet", shape_of(a), at);
  const DType t = dtype_of("linalg.slogdet", {a.array}, at);
  const std::vector<Array> out = frontend::as_one_program("linalg.slogdet", at, [&] {
    const Located x{frontend::converted(a.array, t, at), at};
    const Dims batch = batch_of(dims_of(x));
    if (rows_of(x) == 0) {
      const Located one = with_dims(x.constant(1), batch);
      return std::vector<Array>{one.array, zeros(batch, real_type(t), at)};
    }
    const auto [sign, log] = slogdet_rule(x.array, at);
    return std::vector<Array>{sign, log};
  });
  return {out[0], out[1]};
}

}  // namespace tessera::linalg
