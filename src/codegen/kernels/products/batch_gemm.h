// SPDX-License-Identifier: Apache-2.0
// A sum of matrix products without copies of the operands: the batch-reduce GEMM of Georganas et
// al., "High-Performance Deep Learning via a Single Building Block" (2020). Convolutions are made
// of it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/products/matrix_product.h"

namespace tessera::codegen {

/// c[m, n] = the sum over terms of a_t[m, k_t] b_t[k_t, n], plus what c holds if `accumulate`.
/// Strides are in elements and may be negative, or 0; rows of c are contiguous. Sums are
/// formed in blocks of products, in the order of the terms, whatever m and n are.
template <class T>
struct BatchGemm {
  struct Term {
    const T* a;
    const T* b;
    std::int64_t k;
  };
  const Term* terms = nullptr;
  std::int64_t count = 0;
  std::int64_t m = 0, n = 0;
  std::int64_t a_row = 0, a_column = 1;  ///< of all terms
  std::int64_t b_row = 0, b_column = 1;
  T* c = nullptr;
  std::int64_t c_row = 0;
  bool accumulate = false;
  /// The same for several lots of rows, which begin so far behind those of the terms and of c.
  struct Lot {
    std::int64_t a = 0, c = 0;
    std::int64_t m = 0;           ///< rows, if not as many as the job says
    const char* terms = nullptr;  ///< one for each of the job's: whether it is added; null: all are
    std::int64_t first = 0, last = INT64_MAX;  ///< of each term's products: [first, last)

    bool sums_up_the_same(const Lot& other) const {
      return terms == other.terms && first == other.first && last == other.last;
    }
  };
  const Lot* lots = nullptr;
  std::int64_t lot_count = 1;  ///< one at no distance if there are no lots
};

/// Computes it, for f32 and f64, with the machine's vectors.
template <class T>
void batch_gemm(const BatchGemm<T>& job);
/// One product.
template <class T>
void batch_gemm(const MatrixProduct<T>& product, bool accumulate);

/// Elements of n that are computed at once, and rows.
template <class T>
std::int64_t batch_gemm_lanes();
inline constexpr std::int64_t kBatchGemmRows = 6;
/// How much of the machine products of m rows that sum up k at a time use, at most 1.
double batch_gemm_use(double m, double k);

}  // namespace tessera::codegen
