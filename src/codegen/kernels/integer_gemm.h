// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers with sums of 32 bits, as quantised networks have them.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// c[m, n] = the sum over k of a[m, k] b[k, n], modulo 2^32. Strides are in elements; rows of c are
/// contiguous. Products of pairs are summed up by one instruction: 16-bit numbers hold 8-bit ones
/// of either sign, and 32-bit ones two of their products.
template <class A, class B>
struct IntegerGemm {
  const A* a = nullptr;
  const B* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::int32_t* c = nullptr;
  std::int64_t c_row = 0;
};

/// For std::int8_t and std::uint8_t.
template <class A, class B>
void integer_gemm(const IntegerGemm<A, B>& job);

}  // namespace tessera::codegen
