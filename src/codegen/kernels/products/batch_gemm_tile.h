// SPDX-License-Identifier: Apache-2.0
// Tiles of batch_gemm, for several instruction sets: a few rows by a strip of columns, whose sums
// stay in registers while the terms go by.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/codegen/kernels/products/batch_gemm.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen::batch_gemm_tiles {

/// Products in a row, before some of the next strip is asked for.
constexpr std::int64_t kChunk = 16;
/// A part of one of the job's terms: of which one, and the first of its products.
struct PartOf {
  std::int64_t term, first;
};
/// Parts of terms that are summed up at once.
template <class T>
struct TermRange {
  const typename BatchGemm<T>::Term* terms = nullptr;
  const PartOf* of = nullptr;
  std::int64_t count = 0;
};

/// Lots that sum up the same, one after the other: what the first one says of terms is for all.
template <class T>
struct RowRange {
  const typename BatchGemm<T>::Lot* lots;
  std::int64_t rows;
  /// Whether the lots add all products of all terms.
  bool whole() const {
    return lots->terms == nullptr && lots->first == 0 && lots->last == INT64_MAX;
  }
};

template <class T>
struct RowList {
  const RowRange<T>* ranges;
  std::int64_t range_count;
  std::int64_t count;  ///< of rows
};

/// Terms of a block, and the columns of c that they are summed up in.
template <class T>
struct BlockJob {
  const BatchGemm<T>* all;
  RowList<T> rows;
  TermRange<T> terms;
  TermRange<T> next;        ///< of the block after it, if that is to be asked for
  std::int64_t next_begin;  ///< its first column
  bool asks;                ///< for the next strip
  std::int64_t begin, end;  ///< columns
  bool accumulate;
  T* packed;  ///< room for a strip of b
  bool pack;  ///< all strips, not only those that are no whole vectors
};

/// Where a strip of columns of b is: in the terms, or packed, one term after the other.
template <class T>
struct Strip {
  std::int64_t column;   ///< of c
  std::int64_t columns;  ///< at most so many vectors, the last of which may be cut
  const T* packed;
};

/// What is left to be asked for of the strip after this one, so that loads don't wait for it.
template <class T>
struct Ahead {
  const typename BatchGemm<T>::Term* term = nullptr;
  std::int64_t terms = 0;
  std::int64_t column = 0, row = 0;  ///< of the term's matrix
  std::int64_t each = 0;             ///< rows at a time
  std::int64_t lines = 1;            ///< of a row
};
constexpr int kMostRows = 12;
/// Terms with a strip of b, as it stands or packed, and where rows of a and c are, behind those of
/// the terms and of all c.
template <class T>
struct TileOf {
  const typename BatchGemm<T>::Term* terms;
  std::int64_t count, b_row;
  std::int64_t a[kMostRows], c[kMostRows];  ///< of equally distant ones the first
};
/// Whether rows of a tile are equally far apart, as those of one lot are, which takes fewer
/// registers; whether it asks for the next strip (the others may); and whether it packs b as it
/// reads it.
enum class TileKind : std::uint8_t { even, even_asking, uneven, packing };

template <class T, int bytes>
struct Tile {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kVectors = bytes == 64 ? 4 : 2;  ///< of the columns of the widest tiles
  static constexpr std::int64_t kLine = 64 / std::int64_t(sizeof(T));

  /// Of the highest tile of so many vectors: its sums take most of the registers. Eight of them at
  /// least are added to while one product is on its way.
  static constexpr std::int64_t most_rows(std::int64_t vectors) {
    constexpr std::int64_t kOf32[] = {kMostRows, kMostRows, 8, 6}, kOf16[] = {8, 6};
    return bytes == 64 ? kOf32[vectors - 1] : kOf16[vectors - 1];
  }
  static TESSERA_INLINE void ask(const BatchGemm<T>& g, Ahead<T>* ahead) {
    const std::int64_t rows = std::min(ahead->each, ahead->term->k - ahead->row);
    const T* at = ahead->term->b + ahead->row * g.b_row + ahead->column;
    for (std::int64_t r = 0; r < rows; ++r, at += g.b_row) {
      for (std::int64_t line = 0; line < ahead->lines; ++line) {
        __builtin_prefetch(at + line * kLine, 0, 2);  // into the second cache
      }
    }
    ahead->row += rows;
    if (ahead->row == ahead->term->k) ++ahead->term, --ahead->terms, ahead->row = 0;
  }

  /// Rows of a, of which the products go along: equally distant ones by a register for each three
  /// of them and by their distance.
  template <int rows, bool even>
  struct Rows {
    static constexpr int kBases = even ? (rows + 2) / 3 : rows;
    const T* base[kBases];
    std::int64_t step, in_row = 0;
    TESSERA_INLINE Rows(const T* a, const TileOf<T>& at, std::int64_t to_next) : step(to_next) {
#pragma GCC unroll 16
      for (int b = 0; b < kBases; ++b) {
        base[b] = a + (even ? at.a[0] + 3 * b * to_next : at.a[even ? 0 : b]);
        // A register of its own, rather than a distance from another one that is read each time.
        __asm__("" : "+r"(base[b]));
      }
    }
    TESSERA_INLINE T at(int r) const {
      return even ? base[r / 3][r % 3 * step] : base[even ? 0 : r][in_row];
    }
    TESSERA_INLINE void advance(std::int64_t a_column) {
      if constexpr (!even) in_row += a_column;
#pragma GCC unroll 16
      for (int b = 0; b < kBases && even; ++b) base[b] += a_column;
    }
  };

  template <int rows, int vectors, TileKind kind>
  static TESSERA_INLINE void run(const BlockJob<T>& job, const TileOf<T>& at, const Strip<T>& strip,
                                 Ahead<T>* ahead) {
    const BatchGemm<T>& g = *job.all;
    constexpr std::int64_t kWidth = vectors * kLanes;
    constexpr bool kPacks = kind == TileKind::packing,
                   kEven = kind == TileKind::even || kind == TileKind::even_asking;
    const auto c_of = [&](int r) {
      return g.c + strip.column + (kEven ? at.c[0] + r * g.c_row : at.c[kEven ? 0 : r]);
    };
    if (job.accumulate) ask_for<rows, vectors>(c_of);
    V sum[rows][vectors] = {};
    const std::int64_t a_column = g.a_column, b_row = at.b_row;
    T* to_pack = job.packed;
    const auto* const end = at.terms + at.count;
    for (const auto* term = at.terms; term != end; ++term) {
      Rows<rows, kEven> a(term->a, at, g.a_row);
      const T* b = term->b;
      for (std::int64_t left = term->k, chunk; left > 0; left -= chunk) {
        chunk = left;
        if (kind != TileKind::even && ahead->terms > 0) {
          ask(g, ahead);
          chunk = std::min(left, kChunk);
        }
        for (std::int64_t k = 0; k < chunk; ++k, b += b_row) {
          V of_b[vectors];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) of_b[v] = Simd::load(b + v * kLanes);
          if constexpr (kPacks) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) Simd::store(to_pack + v * kLanes, of_b[v]);
            to_pack += kWidth;
          }
#pragma GCC unroll 16
          for (int r = 0; r < rows; ++r) {
            // As a scalar: a vector made of it here would be a sum with zero and a shuffle.
            const T x = a.at(r);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
          }
          a.advance(a_column);
        }
      }
    }
    // What is read behind it is read then, not kept in registers meanwhile.
    __asm__("" ::: "memory");
    const bool accumulate = job.accumulate;
    if (strip.columns < kWidth) {
      alignas(64) T part[rows * kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        T* const c = c_of(r);
#pragma GCC unroll 8
        for (int v = 0; v + 1 < vectors; ++v) {
          T* to = c + v * kLanes;
          Simd::store(to, accumulate ? Simd::load(to) + sum[r][v] : sum[r][v]);
        }
        Simd::store(part + r * kLanes, sum[r][vectors - 1]);
      }
#pragma GCC unroll 1
      for (int r = 0; r < rows; ++r) {
        T* const c = g.c + strip.column + (kEven ? at.c[0] + r * g.c_row : at.c[r]);
        store_part<bytes / 2>(part + r * kLanes, strip.columns - (kWidth - kLanes), accumulate,
                              c + (kWidth - kLanes));
      }
      return;
    }
    T* c = c_of(0);
    const std::int64_t c_row = g.c_row;
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r, c += c_row) {
      if (!kEven) c = c_of(r);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        T* to = c + v * kLanes;
        Simd::store(to, accumulate ? Simd::load(to) + sum[r][v] : sum[r][v]);
      }
    }
  }
  /// Less than a vector's columns of c, in pieces of at most so many bytes.
  template <int most>
  static TESSERA_INLINE void store_part(const T* sum, std::int64_t columns, bool accumulate, T* c) {
    if constexpr (most >= 16) {
      using Piece = Vectors<T, most>;
      std::int64_t n = 0;
      if (columns >= Piece::kLanes) {
        const typename Piece::V x = Piece::load(sum);
        Piece::store(c, accumulate ? Piece::load(c) + x : x);
        n = Piece::kLanes;
      }
      store_part<most / 2>(sum + n, columns - n, accumulate, c + n);
    } else {
#pragma GCC unroll 1
      for (std::int64_t n = 0; n < columns; ++n) c[n] = accumulate ? c[n] + sum[n] : sum[n];
    }
  }
  /// What a tile is added to, so that it is in the first cache by then. Stores don't wait: where
  /// there is nothing to add to, this would only hold up what is read.
  template <int rows, int vectors, class Row>
  static TESSERA_INLINE void ask_for(const Row& c_of) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const T* const c = c_of(r);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v += 64 / bytes) __builtin_prefetch(c + v * kLanes, 1);
    }
  }
};

// A tile is a function of its own, as sums would leave the registers to what is around it.
#define TESSERA_TILE(name, bytes, TARGET)                                                 \
  template <class T, int rows, int vectors, TileKind kind>                                \
  __attribute__((noinline)) TARGET void name(const BlockJob<T>& job, const TileOf<T>& at, \
                                             const Strip<T>& strip, Ahead<T>* ahead) {    \
    Tile<T, bytes>::template run<rows, vectors, kind>(job, at, strip, ahead);             \
  }
TESSERA_TILE(tile_baseline, 16, )
TESSERA_TILE(tile_avx2, 32, TESSERA_FOR_AVX2)
TESSERA_TILE(tile_avx512, 64, TESSERA_FOR_AVX512)
#undef TESSERA_TILE

}  // namespace tessera::codegen::batch_gemm_tiles
