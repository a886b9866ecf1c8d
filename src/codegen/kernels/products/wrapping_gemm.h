// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers whose sums are of their own type.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// c = a b, modulo two to the type's bits. Elements of a row stand `*_column` apart.
template <class T>
struct WrappingGemm {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::int64_t a_row = 1, a_column = 1;
  const T* b = nullptr;
  std::int64_t b_row = 1, b_column = 1;
  T* c = nullptr;
  std::int64_t c_row = 0;
};

/// Of 8 to 64 bits; those of either sign have the same bits.
template <class T>
void wrapping_gemm(const WrappingGemm<T>& job);

}  // namespace tessera::codegen
