// SPDX-License-Identifier: Apache-2.0
// Compiled alone: it uses vector instructions that only some machines have.
#include "src/codegen/kernels/products/narrow/narrow_panels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

std::int64_t tiles_along(std::int64_t n, std::int64_t of_a_tile) {
  return (n + of_a_tile - 1) / of_a_tile;
}

#if defined(__x86_64__)

/// One tile's place in a panel.
struct TileSource {
  const std::byte* from;
  int element_bytes;
  std::int64_t across, depth;  ///< what there is of it
  std::int64_t across_bytes, depth_bytes;
  std::uint8_t flip;
};

/// Row r is what stands at from + r * stride: `rows` of `bytes` bytes, the rest zeros.
TESSERA_FOR_AVX512 void copy_rows(const std::byte* from, std::int64_t stride, std::int64_t rows,
                                  std::int64_t bytes, std::uint8_t flip, std::byte* to) {
  const __mmask64 lanes = bytes >= 64 ? ~__mmask64(0) : (__mmask64(1) << bytes) - 1;
  const __m512i flips = _mm512_maskz_mov_epi8(lanes, _mm512_set1_epi8(char(flip)));
  for (std::int64_t r = 0; r < kTileRows; ++r, to += kTileRowBytes) {
    const __m512i row =
        r < rows ? _mm512_maskz_loadu_epi8(lanes, from + r * stride) : _mm512_setzero_si512();
    _mm512_store_si512(to, r < rows ? _mm512_xor_si512(row, flips) : row);
  }
}

/// Groups of what stands side by side in lines of 16 elements, a line for each k.
TESSERA_FOR_AVX512 void join_lines(const TileSource& t, std::byte* to) {
  const int group = 4 / t.element_bytes;
  const __mmask64 lanes = (__mmask64(1) << t.across * t.element_bytes) - 1;
  const __m256i flips = _mm256_set1_epi8(char(t.flip));
  for (std::int64_t r = 0; r < kTileRows; ++r, to += kTileRowBytes) {
    __m256i line[4];
    for (int g = 0; g < group; ++g) {
      const std::int64_t k = r * group + g;
      line[g] = _mm256_setzero_si256();
      if (k >= t.depth) continue;
      const __m256i flip = _mm256_maskz_mov_epi8(__mmask32(lanes), flips);
      line[g] = _mm256_xor_si256(
          _mm256_maskz_loadu_epi8(__mmask32(lanes), t.from + k * t.depth_bytes), flip);
    }
    // The forms with a mask, as g++ 12 warns of the insides of the others.
    __m512i row = _mm512_setzero_si512();
    for (int g = 0; g < group; ++g) {
      const __m512i lane =
          group == 2 ? _mm512_maskz_cvtepu16_epi32(0xffff, line[g])
                     : _mm512_maskz_cvtepu8_epi32(0xffff, _mm256_castsi256_si128(line[g]));
      const auto bits = unsigned(32 / group * g);
      row = _mm512_or_si512(row, _mm512_maskz_slli_epi32(0xffff, lane, bits));
    }
    _mm512_store_si512(to, row);
  }
}

/// The same for whole tiles of 16-bit elements.
TESSERA_FOR_AVX512 void join_pairs(const std::byte* from, std::int64_t stride, std::byte* to) {
  for (std::int64_t r = 0; r < kTileRows; ++r, from += 2 * stride, to += kTileRowBytes) {
    __m256i lines[2];
    std::memcpy(&lines[0], from, sizeof lines[0]);
    std::memcpy(&lines[1], from + stride, sizeof lines[1]);
    const __m512i high = _mm512_maskz_cvtepu16_epi32(0xffff, lines[1]);
    _mm512_store_si512(to, _mm512_or_si512(_mm512_maskz_cvtepu16_epi32(0xffff, lines[0]),
                                           _mm512_maskz_slli_epi32(0xffff, high, 16)));
  }
}

/// Columns of 4 bytes become rows, of 16 that are `stride` apart. In place if `from` is `to`.
TESSERA_FOR_AVX512 void transpose_lanes(const std::byte* from, std::int64_t stride, std::byte* to) {
  using Lanes = Vectors<std::int32_t, 64>;
  Lanes::V rows[16];
  for (int r = 0; r < 16; ++r) std::memcpy(&rows[r], from + r * stride, sizeof rows[r]);
  Lanes::transpose(rows);
  for (int c = 0; c < 16; ++c) std::memcpy(to + c * kTileRowBytes, &rows[c], sizeof rows[c]);
}

/// Tile (i, k) of a panel, [across][depth].
template <class F>
void for_each_tile(const Panel& p, F&& f) {
  const std::int64_t deep = tile_depth(p.element_bytes);
  for (std::int64_t i = 0; i < p.across; i += kTileRows) {
    for (std::int64_t k = 0; k < p.depth; k += deep) {
      f(TileSource{p.from + (i * p.across_stride + k * p.depth_stride) * p.element_bytes,
                   p.element_bytes, std::min(kTileRows, p.across - i), std::min(deep, p.depth - k),
                   p.across_stride * p.element_bytes, p.depth_stride * p.element_bytes, p.flip});
    }
  }
}

void pack(const Panel& panel, bool groups_in_rows, std::byte* to) {
  for_each_tile(panel, [&](const TileSource& t) {
    const bool lines = panel.depth_stride != 1;  // those of k stand side by side
    const bool whole =
        t.across == kTileRows && t.depth * t.element_bytes == kTileRowBytes && t.flip == 0;
    if (whole && !lines && groups_in_rows) {
      transpose_lanes(t.from, t.across_bytes, to);
      to += kTileBytes;
      return;
    }
    if (lines && whole && t.element_bytes == 2) {
      join_pairs(t.from, t.depth_bytes, to);
    } else if (lines) {
      join_lines(t, to);
    } else {
      copy_rows(t.from, t.across_bytes, t.across, t.depth * t.element_bytes, t.flip, to);
    }
    if (lines != groups_in_rows) transpose_lanes(to, kTileRowBytes, to);
    to += kTileBytes;
  });
}
#else
void pack(const Panel&, bool, std::byte*) {}
#endif

}  // namespace

std::int64_t packed_bytes(const Panel& panel) {
  return tiles_along(panel.across, kTileRows) *
         tiles_along(panel.depth, tile_depth(panel.element_bytes)) * kTileBytes;
}

void pack_rows_of_tiles(const Panel& panel, std::byte* to) { pack(panel, false, to); }
void pack_columns_of_tiles(const Panel& panel, std::byte* to) { pack(panel, true, to); }

}  // namespace tessera::codegen
