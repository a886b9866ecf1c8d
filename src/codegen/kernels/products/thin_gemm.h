// SPDX-License-Identifier: Apache-2.0
// A few vectors by a matrix whose sums go along its lines, as the weights of linear layers lie: the
// matrix is read once, where it stands.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// c[m, n] = the sum over k of a[m, k] b[n, k]. Strides are in elements; lines of b are
/// contiguous. Each element's bits depend on its row of a and its line of b alone.
template <class T>
struct ThinGemm {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  const T* b = nullptr;
  std::int64_t b_line = 0;
  T* c = nullptr;
  std::int64_t c_row = 0, c_column = 1;
};

/// Computes it, for f32 and f64, with the machine's vectors.
template <class T>
void thin_gemm(const ThinGemm<T>& job);

/// Whether that is the fastest way for m vectors by a matrix of n lines. Others would have to put
/// the matrix in another order if it is `transposed` for them.
bool thin_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed);

}  // namespace tessera::codegen
