// SPDX-License-Identifier: Apache-2.0
// Factors by elimination, column by column.
#include "src/compiler/accelerators/factors.h"

#include <algorithm>

namespace tessera::compiler::accelerators {
namespace {

/// [batch, steps], of which a loop writes a value per matrix in each step.
Expr with_step(Expr all, Expr k, Expr value) {
  return choose(column_numbers(all) == k, per_matrix(value, all.dims()), all);
}

Dims with_steps(const Dims& matrices) {
  Dims out = batch_of(matrices);
  out.push_back(std::min(matrices[matrices.size() - 2], matrices.back()));
  return out;
}

/// (1 - tau v v*) x
Expr reflected(Expr x, Expr v, Expr tau) {
  const Expr w = sum_over_rows(conjugate(v) * x);
  return x - per_matrix(tau, x.dims()) * (v * per_column(w, x.dims()));
}

}  // namespace

Exprs cholesky(Expr a, bool lower) {
  const Expr factor{a.b, a.b->emit(ir::Opcode::cholesky, {a.i}, ir::CholeskyAttrs{lower})};
  const Expr row = row_numbers(a), column = column_numbers(a);
  const Expr kept = lower ? row >= column : row <= column;
  // A matrix that isn't positive definite has NaNs for its factor.
  const Expr is_nan = (factor != factor) & kept;
  return {choose(kept, factor, a), max_of_matrix(convert(is_nan, DType::s32), 0)};
}

/// Gaussian elimination with row exchanges.
Exprs lu(Expr matrix) {
  const Dims steps = with_steps(matrix.dims());
  const auto step = [](Expr k, const Exprs& state) -> Exprs {
    const Expr a = state[0], pivots = state[1], info = state[2];
    const Dims& dims = a.dims();
    const Expr row = row_numbers(a), column = column_numbers(a);
    const Expr in_column = column == k, in_row = row == k;
    // The largest element of the column, at or below the diagonal, as BLAS measures it.
    const Expr here = in_column & (row >= k);
    const Expr size = is_complex(a.dtype()) ? abs(real(a)) + abs(imag(a)) : abs(a);
    const Expr candidates = choose(here, size, -1);
    const Expr is_most = here & (candidates == per_matrix(max_of_matrix(candidates, -1), dims));
    const double last = double(a.rows() - 1);
    const Expr pivot = min_of_matrix(choose(is_most, row, last), last);
    const Expr in_pivot = row == per_matrix(pivot, dims);
    const Expr upper = per_column(accelerators::row(a, in_pivot), dims);
    const Expr lower = per_column(accelerators::row(a, in_row), dims);
    const Expr swapped = choose(in_row, upper, choose(in_pivot, lower, a));
    const Expr diagonal = sum_of_matrix(choose(in_row & in_column, swapped, 0));
    const Expr below = (row > k) & per_matrix(diagonal != 0, dims);
    const Expr scaled = choose(below & in_column, swapped / per_matrix(diagonal, dims), swapped);
    const Expr product = per_row(accelerators::column(scaled, in_column), dims) * upper;
    const Expr number = filled(info, 1) + k;
    return {choose(below & (column > k), scaled - product, scaled),
            with_step(pivots, k, pivot + 1),  // LAPACK counts from 1
            choose((diagonal == 0) & (info == 0), number, info)};
  };
  return counted_loop("getrf", steps.back(),
                      {matrix, filled(matrix.b, DType::s32, steps, 0),
                       filled(matrix.b, DType::s32, batch_of(matrix.dims()), 0)},
                      step);
}

/// Householder's reflectors.
Exprs qr(Expr matrix) {
  const Dims steps = with_steps(matrix.dims());
  const auto step = [](Expr k, const Exprs& state) -> Exprs {
    const Expr a = state[0], taus = state[1];
    const Dims& dims = a.dims();
    const Expr row = row_numbers(a), column = column_numbers(a);
    const Expr in_column = column == k, on_diagonal = in_column & (row == k),
               below = in_column & (row > k);
    const Expr alpha = sum_of_matrix(choose(on_diagonal, a, 0));
    const Expr tail = sum_of_matrix(choose(below, squares(a), 0));
    const Expr norm = sqrt(tail + squares(alpha));
    const Expr beta = as_type(choose(real(alpha) >= 0, -norm, norm), a.dtype());
    // Nothing to do where all below is 0 and what stands there is real.
    const Expr idle = (tail == 0) & (imag(alpha) == 0);
    const Expr safe_beta = choose(idle, 1, beta);
    const Expr tau = choose(idle, 0, (safe_beta - alpha) / safe_beta);
    const Expr quotient = a / per_matrix(choose(idle, 1, alpha - safe_beta), dims);
    // The reflector in its column, all else 0, and then for all columns.
    const Expr only = choose(below, quotient, choose(on_diagonal, 1, filled(a, 0)));
    const Expr v = per_row(sum_over_columns(only), dims);
    const Expr applied = choose(column > k, reflected(a, v, conjugate(tau)), a);
    const Expr diagonal = per_matrix(choose(idle, alpha, beta), dims);
    return {choose(below, quotient, choose(on_diagonal, diagonal, applied)),
            with_step(taus, k, tau)};
  };
  return counted_loop("geqrf", steps.back(), {matrix, filled(matrix.b, matrix.dtype(), steps, 0)},
                      step);
}

/// From the last to the first.
Expr product_of_reflectors(Expr reflectors, Expr factors) {
  const std::int64_t steps = factors.dims().back();
  const auto step = [steps](Expr k, const Exprs& state) -> Exprs {
    const Expr q = state[0], a = state[1], taus = state[2];
    const Expr at = filled(k, double(steps - 1)) - k;
    const Expr row = row_numbers(a), in_column = column_numbers(a) == at;
    const Expr only =
        choose(in_column & (row > at), a, choose(in_column & (row == at), 1, filled(a, 0)));
    const Expr v = per_row(sum_over_columns(only), a.dims());
    const Expr tau = sum_over_columns(choose(column_numbers(taus) == at, taus, 0));
    return {reflected(q, v, tau), a, taus};
  };
  const Expr one = unit(reflectors.b, reflectors.dtype(), reflectors.dims());
  return counted_loop("orgqr", steps, {one, reflectors, factors}, step)[0];
}

}  // namespace tessera::compiler::accelerators
