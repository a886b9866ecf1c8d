// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers with 32-bit sums, as quantised networks have them, and of bf16
// with sums in f32, by the instructions that are made for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

namespace tessera::codegen {

/// c[m, n] = the sum over k of a[m, k] b[k, n]: modulo 2^32 for integers; for bf16 in f32, numbers
/// below its normal ones taken as zero, as the instructions do. Strides are in elements; one of
/// each side's is 1, and rows of c are contiguous.
struct NarrowGemm {
  DType a_type = DType::s8, b_type = DType::s8;  ///< s8 and u8 in any pairing, or both bf16
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::byte* c = nullptr;  ///< s32 or f32
  std::int64_t c_row = 0;
  bool accumulate = false;  ///< floats alone: what c holds is added
};

/// Whether this machine has such instructions for bf16. Integers are multiplied without as well.
bool has_bf16_gemm();
void narrow_gemm(const NarrowGemm& job);

}  // namespace tessera::codegen
