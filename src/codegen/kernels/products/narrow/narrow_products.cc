// SPDX-License-Identifier: Apache-2.0
// Compiled alone: it uses instructions that only some machines have.
#include "src/codegen/kernels/products/narrow/narrow_products.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/narrow/narrow_panels.h"

namespace tessera::codegen {
namespace {

#if defined(__x86_64__)

#define TESSERA_FOR_TILES __attribute__((target("amx-tile,amx-int8,amx-bf16,avx512f,avx512bw")))
#define TESSERA_FOR_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define TESSERA_FOR_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

enum class Types { ss, su, us, uu, bf16 };

std::byte* place_in(const TileProducts& job, std::int64_t row, std::int64_t column) {
  return job.c + 4 * (row * job.c_row + column);
}

/// Copies what there is of a tile of c from or to a full one.
struct Part {
  std::byte* c;
  std::int64_t rows, bytes, stride;
  Part(const TileProducts& job, std::int64_t row, std::int64_t column)
      : c(place_in(job, row, column)),
        rows(std::min(kTileRows, job.rows - row)),
        bytes(4 * std::min(kTileRows, job.columns - column)),
        stride(4 * job.c_row) {}
  bool is_full() const { return rows == kTileRows && bytes == kTileRowBytes; }
  void read(std::byte* tile) const {
    std::memset(tile, 0, std::size_t(kTileBytes));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(tile + r * kTileRowBytes, c + r * stride, std::size_t(bytes));
    }
  }
  void write(const std::byte* tile) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(c + r * stride, tile + r * kTileRowBytes, std::size_t(bytes));
    }
  }
};

// Reads of tiles aren't known as such to the compiler, which might move what is stored behind them.
#define TESSERA_MEMORY_IS_READ __asm__ volatile("" ::: "memory");
// Names of tiles are part of the instructions, so that these can't be functions. 0 to 3 are sums,
// 4 and 5 of a, 6 and 7 of b.
#define TESSERA_TILE_PRODUCT(sum, x, y)      \
  if constexpr (types == Types::bf16) {      \
    _tile_dpbf16ps(sum, x, y);               \
  } else if constexpr (types == Types::ss) { \
    _tile_dpbssd(sum, x, y);                 \
  } else if constexpr (types == Types::su) { \
    _tile_dpbsud(sum, x, y);                 \
  } else if constexpr (types == Types::us) { \
    _tile_dpbusd(sum, x, y);                 \
  } else {                                   \
    _tile_dpbuud(sum, x, y);                 \
  }
#define TESSERA_OPEN_SUM(sum, row, column)                        \
  if (!job.accumulate) {                                          \
    _tile_zero(sum);                                              \
  } else if (const Part part(job, row, column); part.is_full()) { \
    _tile_loadd(sum, part.c, part.stride);                        \
  } else {                                                        \
    part.read(scratch);                                           \
    TESSERA_MEMORY_IS_READ                                        \
    _tile_loadd(sum, scratch, kTileRowBytes);                     \
  }
#define TESSERA_CLOSE_SUM(sum, row, column)                       \
  if (job.c_is_bf16) {                                            \
    _tile_stored(sum, scratch, kTileRowBytes);                    \
    TESSERA_MEMORY_IS_READ                                        \
    round_tile(job, row, column, scratch);                        \
  } else if (const Part part(job, row, column); part.is_full()) { \
    _tile_stored(sum, part.c, part.stride);                       \
  } else {                                                        \
    _tile_stored(sum, scratch, kTileRowBytes);                    \
    part.write(scratch);                                          \
  }

/// Sums have no numbers below the normal ones, which the conversion would take as zero.
TESSERA_FOR_BF16 void round_tile(const TileProducts& job, std::int64_t row, std::int64_t column,
                                 const std::byte* tile) {
  const std::int64_t rows = std::min(kTileRows, job.rows - row), left = job.columns - column;
  const auto lanes = __mmask16(left >= kTileRows ? 0xffff : (1 << left) - 1);
  std::byte* c = job.c + 2 * (row * job.c_row + column);
  for (std::int64_t r = 0; r < rows; ++r, c += 2 * job.c_row, tile += kTileRowBytes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_load_ps(tile));
    _mm256_mask_storeu_epi16(c, lanes, (__m256i)rounded);
  }
}

/// One or two tiles of rows by one or two of columns.
template <Types types, int down, int across>
TESSERA_FOR_TILES void multiply_tiles(const TileProducts& job, std::int64_t row,
                                      std::int64_t column) {
  alignas(64) std::byte scratch[kTileBytes];
  const std::int64_t line = job.b_line, a_row = job.a_row;
  const std::byte* a = job.a + row / kTileRows * job.a_line;
  const std::byte* b = job.b + column / kTileRows * line;
  TESSERA_MEMORY_IS_READ
  TESSERA_OPEN_SUM(0, row, column)
  if constexpr (across == 2) {
    TESSERA_OPEN_SUM(1, row, column + kTileRows)
  }
  if constexpr (down == 2) {
    TESSERA_OPEN_SUM(2, row + kTileRows, column)
  }
  if constexpr (down == 2 && across == 2) {
    TESSERA_OPEN_SUM(3, row + kTileRows, column + kTileRows)
  }
  for (std::int64_t k = 0; k < job.tiles; ++k, a += job.a_tile, b += kTileBytes) {
    _tile_loadd(4, a, a_row);
    _tile_loadd(6, b, kTileRowBytes);
    TESSERA_TILE_PRODUCT(0, 4, 6)
    if constexpr (across == 2) {
      _tile_loadd(7, b + line, kTileRowBytes);
      TESSERA_TILE_PRODUCT(1, 4, 7)
    }
    if constexpr (down == 2) {
      _tile_loadd(5, a + job.a_line, a_row);
      TESSERA_TILE_PRODUCT(2, 5, 6)
    }
    if constexpr (down == 2 && across == 2) {
      TESSERA_TILE_PRODUCT(3, 5, 7)
    }
  }
  TESSERA_CLOSE_SUM(0, row, column)
  if constexpr (across == 2) {
    TESSERA_CLOSE_SUM(1, row, column + kTileRows)
  }
  if constexpr (down == 2) {
    TESSERA_CLOSE_SUM(2, row + kTileRows, column)
  }
  if constexpr (down == 2 && across == 2) {
    TESSERA_CLOSE_SUM(3, row + kTileRows, column + kTileRows)
  }
}

template <Types types>
void on_tiles(const TileProducts& job) {
  for (std::int64_t n = 0; n < job.columns; n += 2 * kTileRows) {
    const bool wide = n + kTileRows < job.columns;
    for (std::int64_t m = 0; m < job.rows; m += 2 * kTileRows) {
      const bool high = m + kTileRows < job.rows;
      (high   ? wide ? multiply_tiles<types, 2, 2> : multiply_tiles<types, 2, 1>
         : wide ? multiply_tiles<types, 1, 2>
              : multiply_tiles<types, 1, 1>)(job, m, n);
    }
  }
}

/// What the vector instructions of one type do, 16 lanes at a time.
struct IntegerLanes {
  using V = __m512i;
  TESSERA_FOR_VNNI static TESSERA_INLINE V zero() { return _mm512_setzero_si512(); }
  TESSERA_FOR_VNNI static TESSERA_INLINE V start(const TileProducts& job, std::int64_t row,
                                                 std::int64_t column, __mmask16 lanes) {
    if (job.row_starts == nullptr) return zero();
    return _mm512_add_epi32(_mm512_set1_epi32(int(job.row_starts[row])),
                            load(job.column_starts + column, lanes));
  }
  TESSERA_FOR_VNNI static TESSERA_INLINE V load(const void* p, __mmask16 lanes) {
    return _mm512_maskz_loadu_epi32(lanes, p);
  }
  TESSERA_FOR_VNNI static TESSERA_INLINE void store(const TileProducts& job, std::int64_t row,
                                                    std::int64_t column, __mmask16 lanes, V v) {
    _mm512_mask_storeu_epi32(place_in(job, row, column), lanes, v);
  }
  TESSERA_FOR_VNNI static TESSERA_INLINE V add(V sum, int a, __m512i b) {
    return _mm512_dpbusd_epi32(sum, b, _mm512_set1_epi32(a));
  }
};
struct Bf16Lanes {
  using V = __m512;
  TESSERA_FOR_BF16 static TESSERA_INLINE V zero() { return _mm512_setzero_ps(); }
  TESSERA_FOR_BF16 static TESSERA_INLINE V start(const TileProducts&, std::int64_t, std::int64_t,
                                                 __mmask16) {
    return zero();
  }
  TESSERA_FOR_BF16 static TESSERA_INLINE V load(const void* p, __mmask16 lanes) {
    return _mm512_maskz_loadu_ps(lanes, p);
  }
  TESSERA_FOR_BF16 static TESSERA_INLINE void store(const TileProducts& job, std::int64_t row,
                                                    std::int64_t column, __mmask16 lanes, V v) {
    if (!job.c_is_bf16) return _mm512_mask_storeu_ps(place_in(job, row, column), lanes, v);
    _mm256_mask_storeu_epi16(job.c + 2 * (row * job.c_row + column), lanes,
                             (__m256i)_mm512_cvtneps_pbh(v));
  }
  TESSERA_FOR_BF16 static TESSERA_INLINE V add(V sum, int a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(a), (__m512bh)b);
  }
};

// Half a tile of rows by one or two of columns: the sums stay in registers.
#define TESSERA_VECTOR_PRODUCTS(name, Lanes, TARGET)                                          \
  template <int across>                                                                       \
  TARGET void name##_block(const TileProducts& job, std::int64_t row, std::int64_t column) {  \
    constexpr int kRows = 8;                                                                  \
    const std::int64_t line = job.b_line;                                                     \
    const std::byte* a = job.a + row / kTileRows * job.a_line + row % kTileRows * job.a_row;  \
    const std::byte* b = job.b + column / kTileRows * line;                                   \
    const std::int64_t rows = std::min<std::int64_t>(kRows, job.rows - row);                  \
    __mmask16 lanes[across];                                                                  \
    for (int s = 0; s < across; ++s) {                                                        \
      const std::int64_t left = job.columns - column - s * kTileRows;                         \
      lanes[s] = __mmask16(left >= kTileRows ? 0xffff : (1 << left) - 1);                     \
    }                                                                                         \
    typename Lanes::V sum[kRows][across];                                                     \
    for (int r = 0; r < kRows; ++r) {                                                         \
      for (int s = 0; s < across; ++s) {                                                      \
        const std::int64_t at = column + s * kTileRows;                                       \
        sum[r][s] = r >= rows        ? Lanes::zero()                                          \
                    : job.accumulate ? Lanes::load(place_in(job, row + r, at), lanes[s])      \
                                     : Lanes::start(job, row + r, at, lanes[s]);              \
      }                                                                                       \
    }                                                                                         \
    for (std::int64_t k = 0; k < job.tiles; ++k, a += job.a_tile) {                           \
      for (std::int64_t g = 0; g < kTileRows; ++g, b += kTileRowBytes) {                      \
        __m512i of_b[across];                                                                 \
        for (int s = 0; s < across; ++s) of_b[s] = _mm512_loadu_si512(b + s * line);          \
        _Pragma("GCC unroll 8") for (int r = 0; r < kRows; ++r) {                             \
          int group;                                                                          \
          std::memcpy(&group, a + r * job.a_row + 4 * g, sizeof group);                       \
          for (int s = 0; s < across; ++s) sum[r][s] = Lanes::add(sum[r][s], group, of_b[s]); \
        }                                                                                     \
      }                                                                                       \
    }                                                                                         \
    for (int r = 0; r < rows; ++r) {                                                          \
      for (int s = 0; s < across; ++s) {                                                      \
        Lanes::store(job, row + r, column + s * kTileRows, lanes[s], sum[r][s]);              \
      }                                                                                       \
    }                                                                                         \
  }                                                                                           \
  void name(const TileProducts& job) {                                                        \
    for (std::int64_t n = 0; n < job.columns; n += 2 * kTileRows) {                           \
      const bool wide = n + kTileRows < job.columns;                                          \
      for (std::int64_t m = 0; m < job.rows; m += 8) {                                        \
        (wide ? name##_block<2> : name##_block<1>)(job, m, n);                                \
      }                                                                                       \
    }                                                                                         \
  }
TESSERA_VECTOR_PRODUCTS(integers_on_vectors, IntegerLanes, TESSERA_FOR_VNNI)
TESSERA_VECTOR_PRODUCTS(bf16_on_vectors, Bf16Lanes, TESSERA_FOR_BF16)

/// Products by ones are sums.
TESSERA_FOR_VNNI std::uint32_t sum_line(const ByteLines& l, const std::byte* from) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < l.count; i += 64) {
    const std::int64_t left = l.count - i;
    const __mmask64 lanes = left >= 64 ? ~__mmask64(0) : (__mmask64(1) << left) - 1;
    const __m512i v = _mm512_maskz_loadu_epi8(lanes, from + i);
    sums = l.type == DType::s8 ? _mm512_dpbusd_epi32(sums, ones, v)
                               : _mm512_dpbusd_epi32(sums, v, ones);
  }
  std::uint32_t parts[16];
  std::memcpy(parts, &sums, sizeof parts);
  return std::accumulate(parts, parts + 16, 0u);
}

/// Of at most 64 lines that stand side by side.
TESSERA_FOR_VNNI void sum_lines_across(const ByteLines& l, std::int64_t first, std::uint32_t* to) {
  const std::int64_t lines = std::min<std::int64_t>(64, l.lines - first);
  const __mmask64 lanes = lines == 64 ? ~__mmask64(0) : (__mmask64(1) << lines) - 1;
  __m512i sums[4] = {};
  for (std::int64_t i = 0; i < l.count; ++i) {
    alignas(64) std::int8_t bytes[64];
    _mm512_store_si512(bytes, _mm512_maskz_loadu_epi8(lanes, l.from + first + i * l.stride));
    for (int part = 0; part < 4; ++part) {
      // The forms with a mask, as g++ 12 warns of the insides of the others.
      const __m128i v = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes) + part);
      sums[part] =
          _mm512_add_epi32(sums[part], l.type == DType::s8 ? _mm512_maskz_cvtepi8_epi32(0xffff, v)
                                                           : _mm512_maskz_cvtepu8_epi32(0xffff, v));
    }
  }
  std::memcpy(to + first, sums, std::size_t(4 * lines));
}

/// All eight tiles are full ones. A constant, as the instruction isn't known to read more of it
/// than its first bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64 && kTileRows == 16 && kTileRowBytes == 64);
constexpr TileConfiguration kFullTiles;

TESSERA_FOR_TILES void open_tiles() { _tile_loadconfig(&kFullTiles); }
TESSERA_FOR_TILES void close_tiles() { _tile_release(); }

#else
void open_tiles() {}
void close_tiles() {}
#endif

}  // namespace

#if defined(__x86_64__)
TileFunction tile_products(NarrowInstructions instructions, DType a, DType b) {
  const bool tiles = instructions == NarrowInstructions::tiles;
  if (a == DType::bf16) return tiles ? on_tiles<Types::bf16> : bf16_on_vectors;
  if (!tiles) return integers_on_vectors;
  if (a == DType::s8) return b == DType::s8 ? on_tiles<Types::ss> : on_tiles<Types::su>;
  return b == DType::s8 ? on_tiles<Types::us> : on_tiles<Types::uu>;
}
#else
TileFunction tile_products(NarrowInstructions, DType, DType) { return nullptr; }
#endif

void sum_lines(const ByteLines& l, std::uint32_t* sums) {
#if defined(__x86_64__)
  if (l.stride == 1) {
    for (std::int64_t i = 0; i < l.lines; ++i) sums[i] = sum_line(l, l.from + i * l.line_stride);
  } else {
    for (std::int64_t i = 0; i < l.lines; i += 64) sum_lines_across(l, i, sums);
  }
#else
  (void)l, (void)sums;
#endif
}

TileScope::TileScope(NarrowInstructions instructions)
    : tiles_(instructions == NarrowInstructions::tiles) {
  if (tiles_) open_tiles();
}
TileScope::~TileScope() {
  if (tiles_) close_tiles();
}

}  // namespace tessera::codegen
