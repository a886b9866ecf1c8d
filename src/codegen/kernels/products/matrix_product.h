// SPDX-License-Identifier: Apache-2.0
// A product of matrices with any strides, as kernels of products take it.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// c[m, n] = a[m, k] b[k, n]. Strides are in elements.
template <class T>
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 1, a_column = 1;
  const T* b = nullptr;
  std::int64_t b_row = 1, b_column = 1;
  T* c = nullptr;
  std::int64_t c_row = 0, c_column = 1;

  /// The same: each matrix with rows for columns, and the factors in the other order.
  MatrixProduct transposed() const {
    return {n, m, k, b, b_column, b_row, a, a_column, a_row, c, c_column, c_row};
  }
};

}  // namespace tessera::codegen
