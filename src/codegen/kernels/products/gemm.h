// SPDX-License-Identifier: Apache-2.0
// c = a b on row-major matrices: by BLAS where it has the type, or our own where that is faster.
#pragma once

#include <cblas.h>

#include <complex>
#include <cstdint>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/batch_gemm.h"
#include "src/codegen/kernels/products/blas_setup.h"
#include "src/codegen/kernels/products/dot_table.h"
#include "src/codegen/kernels/products/matrix_vector.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/codegen/kernels/products/thin_gemm.h"
#include "src/codegen/kernels/products/wrapping_gemm.h"

namespace tessera::codegen {

inline CBLAS_TRANSPOSE transposed_if(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

/// By BLAS: of f32, f64 and complex numbers, added to what c holds if `accumulate`.
template <class T>
void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
               const T* b, int ldb, T* c, int ldc, bool accumulate) {
  const T one = 1, beta = accumulate ? 1 : 0;
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc);
  } else if constexpr (std::is_same_v<T, double>) {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc);
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc);
  } else {
    cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc);
  }
}

/// With a few columns.
template <class T>
void multiply_vectors(const MatrixProduct<T>& p, bool a_by_columns) {
  MatrixVectors<T> job;
  job.matrix = p.a;
  job.rows = p.m;
  job.depth = p.k;
  job.line = a_by_columns ? p.a_column : p.a_row;
  job.by_columns = a_by_columns;
  job.x = p.b;
  job.vectors = p.n;
  job.x_vector = p.b_column;
  job.x_depth = p.b_row;
  job.y = p.c;
  job.y_vector = p.c_column;
  job.y_row = p.c_row;
  multiply(job);
}

/// A part of a product. What multiplies f32 and f64 is chosen for the whole, by choose_gemm: parts
/// depend on the number of threads, which results shouldn't. Integers are unsigned.
template <class T>
void gemm(Gemm by, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
          const T* b, int ldb, T* c, int ldc) {
  MatrixProduct<T> p{m, n, k, a, 1, 1, b, 1, 1, c, ldc, 1};
  (ta == CblasNoTrans ? p.a_row : p.a_column) = lda;
  (tb == CblasNoTrans ? p.b_row : p.b_column) = ldb;
  if constexpr (std::is_integral_v<T>) {
    return wrapping_gemm(p);
  } else {
    // Either side may be the one that is gone through by lines, or that is a few vectors: that is
    // the same product, to the last bit.
    if constexpr (std::is_floating_point_v<T>) {
      const MatrixSizes sizes{m, n, k, ta == CblasTrans, tb == CblasTrans};
      switch (by) {
        case Gemm::thin:
          return thin_gemm(sizes.b_by_lines() ? p : p.transposed());
        case Gemm::vectors:
          return n <= m ? multiply_vectors(p, ta == CblasTrans)
                        : multiply_vectors(p.transposed(), tb == CblasNoTrans);
        case Gemm::packed:
          return packed_gemm(p);
        case Gemm::unpacked:
          return batch_gemm(p, /*accumulate=*/false);
        case Gemm::blas:
          break;
      }
    }
    blas_gemm(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, /*accumulate=*/false);
  }
}

}  // namespace tessera::codegen
