// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Tiles of c stay in registers while the terms go by.
#include "src/codegen/kernels/products/batch_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/small_vector.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Of the part of b that all rows go through, which the second cache should hold.
constexpr std::int64_t kBlockBytes = 192 << 10;
/// Of a whose columns lie apart, each in lines of its own: it and a strip of b are to stay in the
/// first cache while all tiles read them.
constexpr std::int64_t kMostApart = 192;
/// Columns of b that are gone through before others.
constexpr std::int64_t kPanelBytes = 1024;
/// With so many rows, copying a part of b to where it is one piece of memory pays.
constexpr std::int64_t kRowsForPacking = 24;

/// Terms of a block, and the columns of c that they are summed up in.
template <class T>
struct BlockJob {
  const BatchGemm<T>* all;
  const typename BatchGemm<T>::Term* terms;
  std::int64_t count;
  std::int64_t begin, end;  ///< columns
  bool accumulate;
  T* packed;  ///< room for a strip of b
  bool pack;  ///< all strips, not only those that are no whole vectors
};

template <class T, int bytes>
struct Tiles {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kVectors = bytes == 64 ? 4 : 2;  ///< of the columns of the widest tiles

  /// Of the highest tile of so many vectors: its sums take most of the registers.
  static constexpr std::int64_t most_rows(int vectors) {
    constexpr std::int64_t kOf32[] = {8, 8, 8, 6}, kOf16[] = {6, 6};
    return bytes == 64 ? kOf32[vectors - 1] : kOf16[vectors - 1];
  }
  /// Of the columns of tiles for so many rows. A few rows go through b once, in high tiles.
  static TESSERA_INLINE int vectors_for(std::int64_t m) {
    for (int vectors = kVectors; vectors > 1; --vectors) {
      if (m <= most_rows(vectors)) return vectors;
    }
    return kVectors;
  }

  /// Where a strip of columns of b is: in the terms, or packed, one term after the other.
  struct Strip {
    std::int64_t column;   ///< of c
    std::int64_t columns;  ///< at most so many vectors, the last of which may be cut
    const T* packed;
  };

  /// Rows of a lot.
  struct Rows {
    typename BatchGemm<T>::Lot lot;
    std::int64_t first, count;
  };

  template <int rows, int vectors>
  static TESSERA_INLINE void tile(const BlockJob<T>& job, const Rows& part, const Strip& strip) {
    const BatchGemm<T>& g = *job.all;
    V sum[rows][vectors] = {};
    const std::int64_t a_first = part.lot.a + part.first * g.a_row;
    const T* packed = strip.packed;
    for (std::int64_t t = 0; t < job.count; ++t) {
      const auto& term = job.terms[t];
      const T* a = term.a + a_first;
      const T* b = packed != nullptr ? packed : term.b + strip.column;
      const std::int64_t b_row = packed != nullptr ? vectors * kLanes : g.b_row;
      for (std::int64_t k = 0; k < term.k; ++k, a += g.a_column, b += b_row) {
        V of_b[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) of_b[v] = Simd::load(b + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          // As a scalar: a vector made of it here would be a sum with zero and a shuffle.
          const T x = a[r * g.a_row];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
        }
      }
      if (packed != nullptr) packed = b;
    }
    T* c = g.c + part.lot.c + part.first * g.c_row + strip.column;
    const std::int64_t cut = strip.columns - (vectors - 1) * kLanes;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r, c += g.c_row) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        T* to = c + v * kLanes;
        if (v + 1 == vectors && cut < kLanes) {
          T part[kLanes];
          Simd::store(part, sum[r][v]);
          for (std::int64_t n = 0; n < cut; ++n) to[n] = job.accumulate ? to[n] + part[n] : part[n];
        } else {
          Simd::store(to, job.accumulate ? Simd::load(to) + sum[r][v] : sum[r][v]);
        }
      }
    }
  }

  /// All rows, in tiles of heights that differ by at most one.
  template <int vectors>
  static TESSERA_INLINE void rows(const BlockJob<T>& job, Strip strip) {
    const BatchGemm<T>& g = *job.all;
    constexpr std::int64_t kWidth = vectors * kLanes;
    const bool packed = g.b_column == 1 && g.b_row == kWidth && strip.columns == kWidth;
    if (!packed && (job.pack || strip.columns % kLanes != 0)) {
      pack<vectors>(job, strip);
      strip.packed = job.packed;
    }
    constexpr std::int64_t kMost = most_rows(vectors);
    for (std::int64_t l = 0; l < g.lot_count; ++l) {
      Rows part{g.lots == nullptr ? typename BatchGemm<T>::Lot() : g.lots[l], 0, 0};
      for (std::int64_t left = (g.m + kMost - 1) / kMost; left > 0; --left) {
        part.count = (g.m - part.first + left - 1) / left;
        tile_of<vectors, kMost>(job, part, strip);
        part.first += part.count;
      }
    }
  }
  /// Of a height up to `most`.
  template <int vectors, std::int64_t most>
  static TESSERA_INLINE void tile_of(const BlockJob<T>& job, const Rows& part, const Strip& strip) {
    if constexpr (most > 1) {
      if (part.count < most) return tile_of<vectors, most - 1>(job, part, strip);
    }
    tile<most, vectors>(job, part, strip);
  }

  template <int vectors>
  static TESSERA_INLINE void pack(const BlockJob<T>& job, const Strip& strip) {
    const BatchGemm<T>& g = *job.all;
    constexpr std::int64_t kWidth = vectors * kLanes;
    T* to = job.packed;
    for (std::int64_t t = 0; t < job.count; ++t) {
      const auto& term = job.terms[t];
      const T* from = term.b + strip.column * g.b_column;
      std::int64_t k = 0;
      if (g.b_row == 1 && strip.columns == kWidth) {
        for (; k + kLanes <= term.k; k += kLanes, to += kLanes * kWidth) {
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) {
            V square[kLanes];
#pragma GCC unroll 16
            for (int n = 0; n < kLanes; ++n) {
              square[n] = Simd::load(from + k + (v * kLanes + n) * g.b_column);
            }
            Simd::transpose(square);
#pragma GCC unroll 16
            for (int n = 0; n < kLanes; ++n) Simd::store(to + n * kWidth + v * kLanes, square[n]);
          }
        }
      }
      for (; k < term.k; ++k, to += kWidth) {
        const T* row = from + k * g.b_row;
        if (g.b_column == 1 && strip.columns == kWidth) {
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v)
            Simd::store(to + v * kLanes, Simd::load(row + v * kLanes));
          continue;
        }
        for (std::int64_t n = 0; n < kWidth; ++n) {
          to[n] = n < strip.columns ? row[n * g.b_column] : T(0);
        }
      }
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_block(const BlockJob<T>& job) {
  using Tile = Tiles<T, bytes>;
  const std::int64_t most_columns = Tile::vectors_for(job.all->m) * Tile::kLanes;
  for (std::int64_t column = job.begin; column < job.end; column += most_columns) {
    const typename Tile::Strip strip{column, std::min(most_columns, job.end - column), nullptr};
    const std::int64_t vectors = (strip.columns + Tile::kLanes - 1) / Tile::kLanes;
    if constexpr (Tile::kVectors == 4) {
      if (vectors == 4) {
        Tile::template rows<4>(job, strip);
        continue;
      }
      if (vectors == 3) {
        Tile::template rows<3>(job, strip);
        continue;
      }
    }
    if (vectors == 2) {
      Tile::template rows<2>(job, strip);
    } else {
      Tile::template rows<1>(job, strip);
    }
  }
}
TESSERA_VERSIONS(block_version, run_block, BlockJob<T>)

}  // namespace

template <class T>
std::int64_t batch_gemm_lanes() {
  return version_for_machine(16, 32, 64) / std::int64_t(sizeof(T));
}

double batch_gemm_use(double m, double k) {
  // A few rows are one high tile.
  constexpr double kHighest = 8;
  const double tiles = std::ceil(m / double(kBatchGemmRows));
  const double rows = m <= kHighest ? kHighest : tiles * double(kBatchGemmRows);
  return m / rows * k / (k + 6);
}

/// Rows of a that are gone through for all columns before others: they stay in the second cache.
constexpr std::int64_t kBlockRows = 252;

template <class T>
void batch_gemm_rows(const BatchGemm<T>& job) {
  using Term = typename BatchGemm<T>::Term;
  constexpr std::int64_t kPanel = kPanelBytes / std::int64_t(sizeof(T)), kWidestStrip = 4 * 64;
  const auto block = block_version<T>();
  const std::int64_t width = std::clamp<std::int64_t>(job.n, 1, kPanel);
  const std::int64_t depth = std::clamp<std::int64_t>(
      kBlockBytes / (std::int64_t(sizeof(T)) * width), 64, job.a_column == 1 ? 2048 : kMostApart);
  const bool pack = job.b_column != 1 || job.m * job.lot_count >= kRowsForPacking;
  std::int64_t deepest = 0;
  for (std::int64_t t = 0; t < job.count; ++t) deepest += job.terms[t].k;
  const bool packs = pack || job.n % batch_gemm_lanes<T>() != 0;
  const ScratchMemory memory(packs ? std::size_t(std::min(depth, deepest) * kWidestStrip) : 0);
  SmallVector<Term, 8> some;
  for (std::int64_t begin = 0; begin < job.n; begin += kPanel) {
    bool accumulate = job.accumulate;
    std::int64_t in_block = 0;
    const auto flush = [&] {
      block({&job, some.data(), std::int64_t(some.size()), begin, std::min(begin + kPanel, job.n),
             accumulate, reinterpret_cast<T*>(memory.data()), pack});
      accumulate = true;
      some.clear();
      in_block = 0;
    };
    for (std::int64_t t = 0; t < job.count; ++t) {
      for (std::int64_t k = 0; k < job.terms[t].k;) {
        const std::int64_t now = std::min(job.terms[t].k - k, depth - in_block);
        some.push_back({job.terms[t].a + k * job.a_column, job.terms[t].b + k * job.b_row, now});
        k += now;
        in_block += now;
        if (in_block == depth) flush();
      }
    }
    if (!some.empty() || !accumulate) flush();
  }
}

template <class T>
void batch_gemm(const BatchGemm<T>& job) {
  if (job.m <= kBlockRows) return batch_gemm_rows(job);
  std::vector<typename BatchGemm<T>::Term> terms(job.terms, job.terms + job.count);
  BatchGemm<T> part = job;
  part.terms = terms.data();
  // Blocks of nearly the same height.
  for (std::int64_t row = 0, left = (job.m + kBlockRows - 1) / kBlockRows; left > 0; --left) {
    part.m =
        ((job.m - row + left - 1) / left + kBatchGemmRows - 1) / kBatchGemmRows * kBatchGemmRows;
    part.m = std::min(part.m, job.m - row);
    for (std::int64_t t = 0; t < job.count; ++t)
      terms[std::size_t(t)].a = job.terms[t].a + row * job.a_row;
    part.c = job.c + row * job.c_row;
    batch_gemm_rows(part);
    row += part.m;
  }
}

template void batch_gemm(const BatchGemm<float>&);
template void batch_gemm(const BatchGemm<double>&);
template std::int64_t batch_gemm_lanes<float>();
template std::int64_t batch_gemm_lanes<double>();

}  // namespace tessera::codegen
