// SPDX-License-Identifier: Apache-2.0
// Factorisations and substitutions of matrices for which a call of LAPACK takes longer than its
// work. Matrices are real and column-major, results as LAPACK's routines of the same purpose.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "src/codegen/custom_calls/lapack_symbols.h"

namespace tessera::codegen::lapack {

/// The largest ones, by rows and columns.
inline constexpr Int kSmallMatrix = 16;

/// P L U of an m x n matrix in its place, by rows exchanged with `pivots` (from 1 on): getrf.
/// Returns the number of the first pivot that is zero; 0 if none is.
template <class T>
Int factor_lu(Int m, Int n, T* a, Int* pivots) {
  Int info = 0;
  const auto column = [&](Int j) { return a + std::ptrdiff_t(j) * m; };
  for (Int k = 0; k < std::min(m, n); ++k) {
    T* const left = column(k);
    Int pivot = k;
    for (Int i = k + 1; i < m; ++i) {
      if (std::abs(left[i]) > std::abs(left[pivot])) pivot = i;
    }
    pivots[k] = pivot + 1;
    if (left[pivot] == T(0)) {
      if (info == 0) info = k + 1;
      continue;
    }
    if (pivot != k) {
      for (Int j = 0; j < n; ++j) std::swap(column(j)[k], column(j)[pivot]);
    }
    for (Int i = k + 1; i < m; ++i) left[i] /= left[k];
    for (Int j = k + 1; j < n; ++j) {
      T* const right = column(j);
      for (Int i = k + 1; i < m; ++i) right[i] -= left[i] * right[k];
    }
  }
  return info;
}

/// L L^T, or U^T U, of the lower or upper triangle of an n x n matrix in its place: potrf. Returns
/// the order of the first leading minor that isn't positive definite; 0 if all are.
template <class T>
Int factor_cholesky(bool lower, Int n, T* a) {
  // U is L^T: its rows are L's columns.
  const std::ptrdiff_t row = lower ? 1 : n, column = lower ? n : 1;
  for (Int k = 0; k < n; ++k) {
    T* const left = a + k * column;
    const T pivot = left[k * row];
    if (!(pivot > T(0))) return k + 1;
    const T root = std::sqrt(pivot);
    left[k * row] = root;
    for (Int i = k + 1; i < n; ++i) left[i * row] /= root;
    for (Int j = k + 1; j < n; ++j) {
      T* const right = a + j * column;
      for (Int i = j; i < n; ++i) right[i * row] -= left[i * row] * left[j * row];
    }
  }
  return 0;
}

/// x = A^-1 x, or with the transpose of A, which is triangular and n x n: trsm of one column.
template <class T>
void substitute(bool lower, bool transposed, bool unit, Int n, const T* a, T* x) {
  for (Int step = 0; step < n; ++step) {
    // From the end at which one unknown stands alone.
    const Int k = lower != transposed ? step : n - 1 - step;
    const T* const column = a + std::size_t(k) * std::size_t(n);
    const Int begin = lower ? k + 1 : 0, end = lower ? n : k;
    if (transposed) {
      T sum = x[k];
      for (Int i = begin; i < end; ++i) sum -= column[i] * x[i];
      x[k] = unit ? sum : sum / column[k];
    } else {
      if (!unit) x[k] /= column[k];
      for (Int i = begin; i < end; ++i) x[i] -= x[k] * column[i];
    }
  }
}

}  // namespace tessera::codegen::lapack
