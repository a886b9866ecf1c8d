// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Both sides are packed as pairs of 16-bit numbers; tiles of c stay in registers.
#include "src/codegen/kernels/products/narrow/byte_pairs_gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

#if defined(__x86_64__)
/// Of what is packed of a and of b at a time.
constexpr std::int64_t kDepth = 256, kRows = 24, kColumns = 1024;
/// Of a tile: its sums, by two vectors each, leave registers for products on their way to them.
constexpr int tile_rows(int bytes) { return bytes == 64 ? 6 : 4; }

/// Products of a packed block: `pairs` pairs of each of the rows of a ([rows][pairs]) and of the
/// columns of b ([strip][pairs][columns of a strip]).
struct PackedJob {
  const std::int16_t* a;
  const std::int16_t* b;
  std::int64_t rows, pairs, columns;
  std::int32_t* c;
  std::int64_t c_row;
  bool accumulate;
};

template <int bytes>
struct Pairs;
template <>
struct Pairs<16> {
  using V = __m128i;
  __attribute__((target("sse2"))) static TESSERA_INLINE V zero() { return _mm_setzero_si128(); }
  __attribute__((target("sse2"))) static TESSERA_INLINE V splat(std::int32_t x) {
    return _mm_set1_epi32(x);
  }
  __attribute__((target("sse2"))) static TESSERA_INLINE V load(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  __attribute__((target("sse2"))) static TESSERA_INLINE void store(void* p, V v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), v);
  }
  __attribute__((target("sse2"))) static TESSERA_INLINE V add(V x, V y) {
    return _mm_add_epi32(x, y);
  }
  __attribute__((target("sse2"))) static TESSERA_INLINE V madd(V x, V y) {
    return _mm_madd_epi16(x, y);
  }
};
template <>
struct Pairs<32> {
  using V = __m256i;
  TESSERA_FOR_AVX2 static TESSERA_INLINE V zero() { return _mm256_setzero_si256(); }
  TESSERA_FOR_AVX2 static TESSERA_INLINE V splat(std::int32_t x) { return _mm256_set1_epi32(x); }
  TESSERA_FOR_AVX2 static TESSERA_INLINE V load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  TESSERA_FOR_AVX2 static TESSERA_INLINE void store(void* p, V v) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), v);
  }
  TESSERA_FOR_AVX2 static TESSERA_INLINE V add(V x, V y) { return _mm256_add_epi32(x, y); }
  TESSERA_FOR_AVX2 static TESSERA_INLINE V madd(V x, V y) { return _mm256_madd_epi16(x, y); }
};
template <>
struct Pairs<64> {
  using V = __m512i;
  TESSERA_FOR_AVX512 static TESSERA_INLINE V zero() { return _mm512_setzero_si512(); }
  TESSERA_FOR_AVX512 static TESSERA_INLINE V splat(std::int32_t x) { return _mm512_set1_epi32(x); }
  TESSERA_FOR_AVX512 static TESSERA_INLINE V load(const void* p) { return _mm512_loadu_si512(p); }
  TESSERA_FOR_AVX512 static TESSERA_INLINE void store(void* p, V v) { _mm512_storeu_si512(p, v); }
  TESSERA_FOR_AVX512 static TESSERA_INLINE V add(V x, V y) { return _mm512_add_epi32(x, y); }
  TESSERA_FOR_AVX512 static TESSERA_INLINE V madd(V x, V y) { return _mm512_madd_epi16(x, y); }
};

/// Columns of a strip: two vectors of sums.
constexpr std::int64_t strip_of(int bytes) { return 2 * bytes / 4; }

#define TESSERA_INTEGER_TILES(bytes, TARGET)                                                \
  template <int rows>                                                                       \
  TARGET void tile_##bytes(const PackedJob& job, std::int64_t row, const std::int16_t* b,   \
                           std::int64_t column) {                                           \
    using P = Pairs<bytes>;                                                                 \
    constexpr std::int64_t kLanes = bytes / 4;                                              \
    typename P::V sum[rows][2];                                                             \
    for (int r = 0; r < rows; ++r) sum[r][0] = sum[r][1] = P::zero();                       \
    const std::int16_t* a = job.a + row * 2 * job.pairs;                                    \
    _Pragma("GCC unroll 4") for (std::int64_t k = 0; k < job.pairs; ++k, b += 4 * kLanes) { \
      const typename P::V b0 = P::load(b), b1 = P::load(b + 2 * kLanes);                    \
      _Pragma("GCC unroll 8") for (int r = 0; r < rows; ++r) {                              \
        std::int32_t pair;                                                                  \
        std::memcpy(&pair, a + (r * job.pairs + k) * 2, sizeof pair);                       \
        const typename P::V x = P::splat(pair);                                             \
        sum[r][0] = P::add(sum[r][0], P::madd(x, b0));                                      \
        sum[r][1] = P::add(sum[r][1], P::madd(x, b1));                                      \
      }                                                                                     \
    }                                                                                       \
    const std::int64_t width = std::min<std::int64_t>(2 * kLanes, job.columns - column);    \
    if (width == 2 * kLanes) {                                                              \
      std::int32_t* to = job.c + row * job.c_row + column;                                  \
      _Pragma("GCC unroll 8") for (int r = 0; r < rows; ++r, to += job.c_row) {             \
        if (job.accumulate) {                                                               \
          sum[r][0] = P::add(sum[r][0], P::load(to));                                       \
          sum[r][1] = P::add(sum[r][1], P::load(to + kLanes));                              \
        }                                                                                   \
        P::store(to, sum[r][0]);                                                            \
        P::store(to + kLanes, sum[r][1]);                                                   \
      }                                                                                     \
      return;                                                                               \
    }                                                                                       \
    for (int r = 0; r < rows; ++r) {                                                        \
      std::int32_t made[2 * kLanes];                                                        \
      P::store(made, sum[r][0]);                                                            \
      P::store(made + kLanes, sum[r][1]);                                                   \
      auto* to = reinterpret_cast<std::uint32_t*>(job.c + (row + r) * job.c_row + column);  \
      for (std::int64_t n = 0; n < width; ++n) {                                            \
        to[n] = std::uint32_t(made[n]) + (job.accumulate ? to[n] : 0);                      \
      }                                                                                     \
    }                                                                                       \
  }                                                                                         \
  TARGET void block_##bytes(const PackedJob& job) {                                         \
    constexpr std::int64_t kStrip = strip_of(bytes), kTileRows = tile_rows(bytes);          \
    for (std::int64_t column = 0; column < job.columns; column += kStrip) {                 \
      const std::int16_t* b = job.b + column * 2 * job.pairs;                               \
      std::int64_t row = 0;                                                                 \
      for (; row + kTileRows <= job.rows; row += kTileRows) {                               \
        tile_##bytes<int(kTileRows)>(job, row, b, column);                                  \
      }                                                                                     \
      for (; row + 2 <= job.rows; row += 2) tile_##bytes<2>(job, row, b, column);           \
      for (; row < job.rows; ++row) tile_##bytes<1>(job, row, b, column);                   \
    }                                                                                       \
  }
TESSERA_INTEGER_TILES(16, __attribute__((target("sse2"))))
TESSERA_INTEGER_TILES(32, TESSERA_FOR_AVX2)
TESSERA_INTEGER_TILES(64, TESSERA_FOR_AVX512)
#undef TESSERA_INTEGER_TILES

/// Pairs of rows of b, side by side: of `width` columns, and zeros up to those of a strip.
template <class B>
void pack_columns(const B* from, std::int64_t b_row, std::int64_t b_column, std::int64_t depth,
                  std::int64_t width, std::int64_t strip, std::int16_t* to) {
  if (width < strip || depth % 2 != 0) std::fill_n(to, (depth + 1) / 2 * 2 * strip, 0);
  std::int64_t k = 0;
  if (b_column == 1) {
    for (; k + 2 <= depth; k += 2) {
      const B* const row = from + k * b_row;
      const B* const next = row + b_row;
      std::int16_t* const out = to + k * strip;
      for (std::int64_t n = 0; n < width; ++n) {
        out[2 * n] = std::int16_t(row[n]);
        out[2 * n + 1] = std::int16_t(next[n]);
      }
    }
  }
  for (; k < depth; ++k) {
    const B* row = from + k * b_row;
    std::int16_t* out = to + k / 2 * 2 * strip + k % 2;
    for (std::int64_t n = 0; n < width; ++n) out[2 * n] = std::int16_t(row[n * b_column]);
  }
}
template <class A>
void pack_rows(const A* from, std::int64_t a_row, std::int64_t a_column, std::int64_t rows,
               std::int64_t depth, std::int16_t* to) {
  for (std::int64_t r = 0; r < rows; ++r, from += a_row) {
    if (a_column == 1) {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = std::int16_t(from[k]);
    } else {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = std::int16_t(from[k * a_column]);
    }
    to += depth;
    if (depth % 2 != 0) *to++ = 0;
  }
}
template <class A, class B>
void multiply(const NarrowGemm& job) {
  const A* const job_a = reinterpret_cast<const A*>(job.a);
  const B* const job_b = reinterpret_cast<const B*>(job.b);
  auto* const job_c = reinterpret_cast<std::int32_t*>(job.c);
  const auto block = version_for_machine(&block_16, &block_32, &block_64);
  const std::int64_t strip = version_for_machine(strip_of(16), strip_of(32), strip_of(64));
  const std::int64_t deepest = (std::min(job.k, kDepth) + 1) / 2;  // in pairs
  const std::int64_t widest = (std::min(job.n, kColumns) + strip - 1) / strip * strip;
  const ScratchMemory of_b(std::size_t(widest * deepest) * 4);
  const ScratchMemory of_a(std::size_t(kRows * deepest) * 4);
  auto* b = reinterpret_cast<std::int16_t*>(of_b.data());
  auto* a = reinterpret_cast<std::int16_t*>(of_a.data());
  for (std::int64_t n0 = 0; n0 < job.n; n0 += kColumns) {
    const std::int64_t columns = std::min(kColumns, job.n - n0);
    for (std::int64_t k0 = 0; k0 < job.k; k0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, job.k - k0), pairs = (depth + 1) / 2;
      for (std::int64_t n = 0; n < columns; n += strip) {
        pack_columns(job_b + k0 * job.b_row + (n0 + n) * job.b_column, job.b_row, job.b_column,
                     depth, std::min(strip, columns - n), strip, b + n * 2 * pairs);
      }
      for (std::int64_t m0 = 0; m0 < job.m; m0 += kRows) {
        const std::int64_t rows = std::min(kRows, job.m - m0);
        pack_rows(job_a + m0 * job.a_row + k0 * job.a_column, job.a_row, job.a_column, rows, depth,
                  a);
        block({a, b, rows, pairs, columns, job_c + m0 * job.c_row + n0, job.c_row, k0 > 0});
      }
    }
  }
}
#else
template <class A, class B>
void multiply(const NarrowGemm& job) {
  const A* const job_a = reinterpret_cast<const A*>(job.a);
  const B* const job_b = reinterpret_cast<const B*>(job.b);
  auto* const job_c = reinterpret_cast<std::int32_t*>(job.c);
  for (std::int64_t m = 0; m < job.m; ++m) {
    for (std::int64_t n = 0; n < job.n; ++n) {
      std::uint32_t sum = 0;
      for (std::int64_t k = 0; k < job.k; ++k) {
        sum += std::uint32_t(std::int32_t(job_a[m * job.a_row + k * job.a_column]) *
                             std::int32_t(job_b[k * job.b_row + n * job.b_column]));
      }
      job_c[m * job.c_row + n] = std::int32_t(sum);
    }
  }
}
#endif

template <class A>
void multiply(const NarrowGemm& job) {
  job.b_type == DType::s8 ? multiply<A, std::int8_t>(job) : multiply<A, std::uint8_t>(job);
}

}  // namespace

void byte_pairs_gemm(const NarrowGemm& job) {
  job.a_type == DType::s8 ? multiply<std::int8_t>(job) : multiply<std::uint8_t>(job);
}

}  // namespace tessera::codegen
