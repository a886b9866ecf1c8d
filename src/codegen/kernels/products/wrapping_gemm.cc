// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Columns of b are packed by strips of two vectors, and tiles of c stay in registers.
#include "src/codegen/kernels/products/wrapping_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Rows of b, columns of b and rows of a tile: what is packed stays in the second-level cache.
constexpr std::int64_t kDepth = 256, kColumns = 512, kTileRows = 4;

/// What sums are held in; the lowest bits of a sum are those of the type.
template <class T>
using SumOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Of all rows of a by one strip, of `depth` rows and at most a strip's columns.
template <class T>
struct StripJob {
  const T* a;
  std::int64_t a_row, a_column, rows, depth;
  const SumOf<T>* b;  ///< [depth][columns of a strip]
  T* c;
  std::int64_t c_row, columns;
  bool accumulate;
};

template <class T, int bytes>
struct Strip {
  using W = SumOf<T>;
  using Simd = Vectors<W, bytes>;
  static constexpr std::int64_t kLanes = Simd::kLanes, kColumns = 2 * kLanes;

  template <int rows>
  static TESSERA_INLINE void tile(const StripJob<T>& job, std::int64_t row) {
    typename Simd::V sum[rows][2] = {};
    const T* a = job.a + row * job.a_row;
    const W* b = job.b;
    for (std::int64_t k = 0; k < job.depth; ++k, b += kColumns, a += job.a_column) {
      const auto b0 = Simd::load(b), b1 = Simd::load(b + kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const W x = W(a[r * job.a_row]);
        sum[r][0] += b0 * x;
        sum[r][1] += b1 * x;
      }
    }
    for (int r = 0; r < rows; ++r) {
      W made[kColumns];
      std::memcpy(made, sum[r], sizeof made);
      T* to = job.c + (row + r) * job.c_row;
      for (std::int64_t n = 0; n < job.columns; ++n) {
        to[n] = T(made[n] + (job.accumulate ? W(to[n]) : W(0)));
      }
    }
  }
};
template <class T, int bytes>
TESSERA_INLINE void by_strip(const StripJob<T>& job) {
  std::int64_t row = 0;
  for (; row + kTileRows <= job.rows; row += kTileRows) {
    Strip<T, bytes>::template tile<int(kTileRows)>(job, row);
  }
  for (; row < job.rows; ++row) Strip<T, bytes>::template tile<1>(job, row);
}
TESSERA_VERSIONS(strip_version, by_strip, StripJob<T>)

/// `width` columns, and zeros up to those of a strip.
template <class T>
void pack_strip(const T* from, std::int64_t b_row, std::int64_t b_column, std::int64_t depth,
                std::int64_t width, std::int64_t strip, SumOf<T>* to) {
  if (width < strip) std::fill_n(to, depth * strip, SumOf<T>(0));
  if (b_column == 1) {
    for (std::int64_t k = 0; k < depth; ++k, from += b_row, to += strip) {
      std::copy_n(from, width, to);
    }
    return;
  }
  for (std::int64_t n = 0; n < width; ++n) {
    for (std::int64_t k = 0; k < depth; ++k) {
      to[k * strip + n] = SumOf<T>(from[k * b_row + n * b_column]);
    }
  }
}

/// Without packing, which costs more than a few rows or columns. Sums go along the lines of both
/// sides where these are contiguous.
template <class T, int bytes>
TESSERA_INLINE void plain_products(const MatrixProduct<T>& job) {
  using W = SumOf<T>;
  const bool along_lines = job.a_column == 1 && job.b_row == 1;
  for (std::int64_t m = 0; m < job.m; ++m) {
    T* const row = job.c + m * job.c_row;
    const T* const a = job.a + m * job.a_row;
    if (along_lines) {
      for (std::int64_t n = 0; n < job.n; ++n) {
        const T* const b = job.b + n * job.b_column;
        W sum = 0;
        for (std::int64_t k = 0; k < job.k; ++k) sum += W(a[k]) * W(b[k]);
        row[n] = T(sum);
      }
      continue;
    }
    std::fill_n(row, job.n, T(0));
    for (std::int64_t k = 0; k < job.k; ++k) {
      const W x = W(a[k * job.a_column]);
      const T* const b = job.b + k * job.b_row;
      for (std::int64_t n = 0; n < job.n; ++n) row[n] = T(W(row[n]) + x * W(b[n * job.b_column]));
    }
  }
}
TESSERA_VERSIONS(multiply_plainly, plain_products, MatrixProduct<T>)
constexpr std::int64_t kFew = 4, kFewProducts = 4096;

}  // namespace

template <class T>
void wrapping_gemm(const MatrixProduct<T>& job) {
  using W = SumOf<T>;
  if (std::min(job.m, job.n) <= kFew || job.m * job.n * job.k <= kFewProducts) {
    return multiply_plainly<T>()(job);
  }
  const auto multiply = strip_version<T>();
  const std::int64_t strip =
      version_for_machine(Strip<T, 16>::kColumns, Strip<T, 32>::kColumns, Strip<T, 64>::kColumns);
  const std::int64_t widest = (std::min(job.n, kColumns) + strip - 1) / strip * strip;
  const ScratchMemory packed(std::size_t(widest * std::min(job.k, kDepth)) * sizeof(W));
  auto* const b = reinterpret_cast<W*>(packed.data());
  for (std::int64_t n0 = 0; n0 < job.n; n0 += kColumns) {
    const std::int64_t columns = std::min(kColumns, job.n - n0);
    for (std::int64_t k0 = 0; k0 < job.k; k0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, job.k - k0);
      for (std::int64_t n = 0; n < columns; n += strip) {
        pack_strip(job.b + k0 * job.b_row + (n0 + n) * job.b_column, job.b_row, job.b_column, depth,
                   std::min(strip, columns - n), strip, b + n * depth);
      }
      // A few rows of a by all that is packed, as they are read from memory.
      constexpr std::int64_t kRows = 16 * kTileRows;
      for (std::int64_t m = 0; m < job.m; m += kRows) {
        for (std::int64_t n = 0; n < columns; n += strip) {
          multiply({job.a + m * job.a_row + k0 * job.a_column, job.a_row, job.a_column,
                    std::min(kRows, job.m - m), depth, b + n * depth,
                    job.c + m * job.c_row + n0 + n, job.c_row, std::min(strip, columns - n),
                    k0 > 0});
        }
      }
    }
  }
}

template void wrapping_gemm(const MatrixProduct<std::uint8_t>&);
template void wrapping_gemm(const MatrixProduct<std::uint16_t>&);
template void wrapping_gemm(const MatrixProduct<std::uint32_t>&);
template void wrapping_gemm(const MatrixProduct<std::uint64_t>&);

}  // namespace tessera::codegen
