// SPDX-License-Identifier: Apache-2.0
// Products of many small matrices, each of which a few tiles compute as it stands: to pack
// operands, or to call for each, would take as long as the products.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// c[i, m, n] = the sum over k of a[i, m, k] b[i, k, n], for `count` matrices that stand so far
/// apart. Strides are in elements. Each element is summed up in the order of k, whatever m, n and
/// count are. For f32, f64 and complex numbers.
template <class T>
struct SmallGemm {
  std::int64_t count = 1;
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_matrix = 0, a_row = 0, a_column = 1;
  const T* b = nullptr;
  std::int64_t b_matrix = 0, b_row = 0, b_column = 1;  ///< one of the latter two is 1
  const T* b_end = nullptr;  ///< of the memory: vectors may be read up to there
  T* c = nullptr;
  std::int64_t c_matrix = 0, c_row = 0;  ///< columns are contiguous
};
template <class T>
void small_gemm(const SmallGemm<T>& job);

/// y[r] = the sum over k of line r of a matrix times x, for lines [begin, end) of all matrices,
/// that have `of_each` of them one after the other, and an x each.
template <class T>
struct SmallLines {
  std::int64_t begin = 0, end = 0, of_each = 1;
  std::int64_t k = 0;
  const T* lines = nullptr;
  const T* lines_end = nullptr;  ///< of the memory
  const T* x = nullptr;
  const T* x_end = nullptr;
  T* y = nullptr;
};
template <class T>
void small_lines(const SmallLines<T>& job);

/// Whether others take longer, for elements of so many bytes.
bool small_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t element_bytes);
bool small_lines_pay(std::int64_t k, std::int64_t element_bytes);

}  // namespace tessera::codegen
