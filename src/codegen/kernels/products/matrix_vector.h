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

/// Many small matrices, each by a vector of its own: y[r] = row r * x[r / of_each], where rows have
/// `depth` elements. Bits don't depend on how a matrix lies.
template <class T>
struct SmallProducts {
  const T *rows, *x;
  T* y;
  std::int64_t begin, end;  ///< rows
  std::int64_t of_each, depth;
  std::int64_t row, element;  ///< strides in a matrix
};
inline constexpr std::int64_t kSmallDepth = 8;
/// Of a depth up to that; float and double.
template <class T>
void multiply_small(const SmallProducts<T>& job);

}  // namespace tessera::codegen
