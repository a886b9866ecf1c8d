// SPDX-License-Identifier: Apache-2.0
// c = a b on row-major matrices, an overload per type: BLAS where it has the type, or our own where
// that is faster.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <mutex>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/batch_gemm.h"
#include "src/codegen/kernels/products/matrix_vector.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/codegen/kernels/products/thin_gemm.h"
#include "src/codegen/kernels/products/wrapping_gemm.h"

namespace tessera::codegen {

/// BLAS's threads would fight with ours. To be called before the first product.
inline void keep_blas_to_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

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

template <class T>
void multiply_unpacked(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a,
                       int lda, const T* b, int ldb, T* c, int ldc) {
  const typename BatchGemm<T>::Term term{a, b, k};
  BatchGemm<T> job;
  job.terms = &term;
  job.count = 1;
  job.m = m;
  job.n = n;
  (ta == CblasNoTrans ? job.a_row : job.a_column) = lda;
  (ta == CblasNoTrans ? job.a_column : job.a_row) = 1;
  (tb == CblasNoTrans ? job.b_row : job.b_column) = ldb;
  (tb == CblasNoTrans ? job.b_column : job.b_row) = 1;
  job.c = c;
  job.c_row = ldc;
  batch_gemm(job);
}

template <class T>
void multiply_packed(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a,
                     int lda, const T* b, int ldb, T* c, int ldc) {
  PackedGemm<T> job;
  job.m = m;
  job.n = n;
  job.k = k;
  job.a = a;
  (ta == CblasNoTrans ? job.a_row : job.a_column) = lda;
  (ta == CblasNoTrans ? job.a_column : job.a_row) = 1;
  job.b = b;
  (tb == CblasNoTrans ? job.b_row : job.b_column) = ldb;
  (tb == CblasNoTrans ? job.b_column : job.b_row) = 1;
  job.c = c;
  job.c_row = ldc;
  packed_gemm(job);
}

/// Of a part of a product: either side may be the one that is gone through by lines, if sums go
/// along them. That is the same product, to the last bit.
template <class T>
void multiply_thin(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
                   const T* b, int ldb, T* c, int ldc) {
  ThinGemm<T> job;
  job.k = k;
  job.c = c;
  if (tb == CblasTrans && (m <= n || ta == CblasTrans)) {
    job.m = m;
    job.n = n;
    job.a = a;
    job.a_row = ta == CblasTrans ? 1 : lda;
    job.a_column = ta == CblasTrans ? lda : 1;
    job.b = b;
    job.b_line = ldb;
    job.c_row = ldc;
  } else {
    job.m = n;
    job.n = m;
    job.a = b;
    job.a_row = tb == CblasTrans ? ldb : 1;
    job.a_column = tb == CblasTrans ? 1 : ldb;
    job.b = a;
    job.b_line = lda;
    job.c_row = 1;
    job.c_column = ldc;
  }
  thin_gemm(job);
}

template <class T>
void multiply_vectors(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a,
                      int lda, const T* b, int ldb, T* c, int ldc) {
  MatrixVectors<T> job;
  job.depth = k;
  job.y = c;
  if (n <= m) {
    job.matrix = a;
    job.rows = m;
    job.line = lda;
    job.by_columns = ta == CblasTrans;
    job.x = b;
    job.vectors = n;
    job.x_vector = tb == CblasTrans ? ldb : 1;
    job.x_depth = tb == CblasTrans ? 1 : ldb;
    job.y_vector = 1;
    job.y_row = ldc;
  } else {
    job.matrix = b;
    job.rows = n;
    job.line = ldb;
    job.by_columns = tb == CblasNoTrans;
    job.x = a;
    job.vectors = m;
    job.x_vector = ta == CblasTrans ? 1 : lda;
    job.x_depth = ta == CblasTrans ? lda : 1;
    job.y_vector = ldc;
    job.y_row = 1;
  }
  multiply(job);
}

/// A part of a product. What multiplies it is chosen for the whole, by gemm_for: parts depend on
/// the number of threads, which results shouldn't. For f32 and f64 only; for others there is one
/// way.
template <class T>
requires std::is_floating_point_v<T>
void gemm(Gemm by, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
          const T* b, int ldb, T* c, int ldc) {
  switch (by) {
    case Gemm::thin:
      return multiply_thin(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    case Gemm::vectors:
      return multiply_vectors(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    case Gemm::packed:
      return multiply_packed(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    case Gemm::unpacked:
      return multiply_unpacked(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    case Gemm::blas:
      break;
  }
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
  } else {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
  }
}
inline void gemm(Gemm, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,
                 const std::complex<float>* a, int lda, const std::complex<float>* b, int ldb,
                 std::complex<float>* c, int ldc) {
  const std::complex<float> one = 1, zero = 0;
  cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}
inline void gemm(Gemm, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,
                 const std::complex<double>* a, int lda, const std::complex<double>* b, int ldb,
                 std::complex<double>* c, int ldc) {
  const std::complex<double> one = 1, zero = 0;
  cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}

/// Integers wrap.
template <class T>
requires std::is_integral_v<T>
void gemm(Gemm, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
          const T* b, int ldb, T* c, int ldc) {
  WrappingGemm<std::make_unsigned_t<T>> job;
  job.m = m;
  job.n = n;
  job.k = k;
  job.a = reinterpret_cast<const std::make_unsigned_t<T>*>(a);
  (ta == CblasNoTrans ? job.a_row : job.a_column) = lda;
  job.b = reinterpret_cast<const std::make_unsigned_t<T>*>(b);
  (tb == CblasNoTrans ? job.b_row : job.b_column) = ldb;
  job.c = reinterpret_cast<std::make_unsigned_t<T>*>(c);
  job.c_row = ldc;
  wrapping_gemm(job);
}

}  // namespace tessera::codegen
