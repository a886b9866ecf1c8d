// SPDX-License-Identifier: Apache-2.0
// Products of a matrix with a few vectors: what takes the time is to read the matrix, once.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// So many vectors at most.
inline constexpr std::int64_t kMostVectors = 4;

/// y[v, i] = the sum over k of matrix[i, k] x[v, k]. Strides are in elements. Each element's bits
/// depend on its row and its vector alone.
template <class T>
struct MatrixVectors {
  const T* matrix = nullptr;
  std::int64_t rows = 0, depth = 0;
  std::int64_t line = 0;    ///< stride of the dim of the matrix that isn't contiguous
  bool by_columns = false;  ///< it is [depth, rows] in memory, else [rows, depth]
  const T* x = nullptr;
  std::int64_t vectors = 1, x_vector = 0, x_depth = 1;
  T* y = nullptr;
  std::int64_t y_vector = 0, y_row = 1;
};

/// For f32 and f64.
template <class T>
void multiply(const MatrixVectors<T>& job);

}  // namespace tessera::codegen
