// SPDX-License-Identifier: Apache-2.0
// c = a b on row-major matrices: by BLAS where it has the type, or our own where that is faster.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/batch_gemm.h"
#include "src/codegen/kernels/products/blas_setup.h"
#include "src/codegen/kernels/products/matrix_vector.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/codegen/kernels/products/thin_gemm.h"
#include "src/codegen/kernels/products/wrapping_gemm.h"

namespace tessera::codegen {

/// Whether our own product without packing is the faster one where packed_gemm_pays doesn't hold.
/// Measured: by 5 to 200 % on Sapphire Rapids, whose OpenBLAS has kernels of its own for small
/// matrices, and better ones for large ones (by up to 20 %; not so on AMD's Zen 4). With AVX2, on
/// Zen 3, by 5 to 150 %, but for a few rows by a matrix beyond the caches: its lines are then best
/// read as OpenBLAS does, in blocks.
inline bool batch_gemm_pays(CBLAS_TRANSPOSE tb, int m, int n, int k) {
  const double products = double(m) * n * k;
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return products > 2e5 && (products < 4e8 || !is_intel()) && (tb == CblasNoTrans || m >= 8);
    case InstructionSet::avx2:
      return n < 160 || double(n) * k < (tb == CblasTrans && k >= 512 ? 1e5 : 3e5);
    default:
      return false;
  }
}
/// Few rows by a matrix whose lines are columns, far apart: both ways of ours read it slowly.
inline bool reads_far_apart(CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t k) {
  return instruction_set() == InstructionSet::avx2 && tb == CblasTrans && m < 64 && k >= 512;
}
inline CBLAS_TRANSPOSE transposed_if(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}
/// What multiplies matrices of f32 and f64.
enum class Gemm : std::uint8_t { thin, vectors, packed, unpacked, blas };
inline Gemm gemm_for(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n,
                     std::int64_t k) {
  const bool b_by_lines = tb == CblasTrans && (m <= n || ta == CblasTrans);
  if (b_by_lines ? thin_gemm_pays(m, n, k, true)
                 : ta == CblasNoTrans && thin_gemm_pays(n, m, k, false)) {
    return Gemm::thin;
  }
  // A side of few rows or columns is read with the other one, once.
  if (std::min(m, n) <= kMostVectors && m != 0 && n != 0 && k != 0) return Gemm::vectors;
  if (packed_gemm_pays(m, n, k) && !reads_far_apart(tb, m, k)) return Gemm::packed;
  return batch_gemm_pays(tb, int(m), int(n), int(k)) ? Gemm::unpacked : Gemm::blas;
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

/// A part of a product. What multiplies f32 and f64 is chosen for the whole, by gemm_for: parts
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
      switch (by) {
        case Gemm::thin:
          return thin_gemm(tb == CblasTrans && (m <= n || ta == CblasTrans) ? p : p.transposed());
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
