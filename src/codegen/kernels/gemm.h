// SPDX-License-Identifier: Apache-2.0
// c = a b on row-major matrices, an overload per type: BLAS where it has the type.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <mutex>
#include <type_traits>

namespace tessera::codegen {

/// BLAS's threads would fight with ours. To be called before the first product.
inline void keep_blas_to_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float* a,
                 int lda, const float* b, int ldb, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
}
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const double* a,
                 int lda, const double* b, int ldb, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
}
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,
                 const std::complex<float>* a, int lda, const std::complex<float>* b, int ldb,
                 std::complex<float>* c, int ldc) {
  const std::complex<float> one = 1, zero = 0;
  cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}
inline void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k,
                 const std::complex<double>* a, int lda, const std::complex<double>* b, int ldb,
                 std::complex<double>* c, int ldc) {
  const std::complex<double> one = 1, zero = 0;
  cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc);
}

/// Integers wrap.
template <class T>
requires std::is_integral_v<T>
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const T* a, int lda,
          const T* b, int ldb, T* c, int ldc) {
  using W = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  for (std::ptrdiff_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    std::fill_n(row, n, T(0));
    for (std::ptrdiff_t p = 0; p < k; ++p) {
      const W x = W(ta == CblasTrans ? a[p * lda + i] : a[i * lda + p]);
      const std::ptrdiff_t step = tb == CblasTrans ? ldb : 1;
      const T* y = tb == CblasTrans ? b + p : b + p * ldb;
      for (std::ptrdiff_t j = 0; j < n; ++j) row[j] = T(W(row[j]) + x * W(y[j * step]));
    }
  }
}

}  // namespace tessera::codegen
