// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix as vectors that stand one behind the other, as tiles of products read them.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {

/// Rows [begin, end) of some columns of b, each as so many vectors; what the last one has no column
/// for is zero. `to`: of row `begin`.
template <class Simd, int vectors, class T>
TESSERA_INLINE void pack_rows(const T* b, std::int64_t row, std::int64_t column,
                              std::int64_t columns, std::int64_t begin, std::int64_t end, T* to) {
  constexpr int kLanes = Simd::kLanes;
  constexpr std::int64_t kWidth = vectors * kLanes;
  std::int64_t k = begin;
  if (column == 1 && columns == kWidth) {
    for (; k < end; ++k, to += kWidth) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        Simd::store(to + v * kLanes, Simd::load(b + k * row + v * kLanes));
      }
    }
    return;
  }
  if (row == 1 && columns == kWidth) {
    for (; k + kLanes <= end; k += kLanes, to += kLanes * kWidth) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        typename Simd::V square[kLanes];
#pragma GCC unroll 16
        for (int n = 0; n < kLanes; ++n) {
          square[n] = Simd::load(b + k + (v * kLanes + n) * column);
        }
        Simd::transpose(square);
#pragma GCC unroll 16
        for (int n = 0; n < kLanes; ++n) Simd::store(to + n * kWidth + v * kLanes, square[n]);
      }
    }
  }
  for (; k < end; ++k, to += kWidth) {
    for (std::int64_t n = 0; n < kWidth; ++n) {
      to[n] = n < columns ? b[k * row + n * column] : T(0);
    }
  }
}

}  // namespace tessera::codegen
