// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Which tiles there are, of which rows, columns and terms.
#include "src/codegen/kernels/products/batch_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/small_vector.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/batch_gemm_tile.h"
#include "src/codegen/kernels/products/pack_rows.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

using namespace batch_gemm_tiles;

/// Of the part of b that all rows go through, which the second cache should hold.
constexpr std::int64_t kBlockBytes = 192 << 10;
/// Of a whose columns lie apart, each in lines of its own: it and a strip of b are to stay in the
/// first cache while all tiles read them.
constexpr std::int64_t kMostApart = 192;
/// Columns of b that are gone through before others.
constexpr std::int64_t kPanelBytes = 1024;
/// With so many rows, copying a part of b to where it is one piece of memory pays.
constexpr std::int64_t kRowsForPacking = 24;

/// So much of b stays in the second cache from one call to the next.
constexpr std::int64_t kKeptBytes = 256 << 10;

/// The next row: of a lot.
template <class T>
struct RowPlace {
  const typename BatchGemm<T>::Lot* lot;
  std::int64_t row;
};

template <class T, int bytes>
struct Tiles : Tile<T, bytes> {
  using Of = Tile<T, bytes>;
  using Simd = typename Of::Simd;
  using Of::kLanes, Of::kVectors, Of::kLine, Of::most_rows;

  template <int rows, int vectors, TileKind kind>
  static TESSERA_INLINE void tile(const BlockJob<T>& job, const TileOf<T>& at,
                                  const Strip<T>& strip, Ahead<T>* ahead) {
    if constexpr (bytes == 64) {
      tile_avx512<T, rows, vectors, kind>(job, at, strip, ahead);
    } else if constexpr (bytes == 32) {
      tile_avx2<T, rows, vectors, kind>(job, at, strip, ahead);
    } else {
      tile_baseline<T, rows, vectors, kind>(job, at, strip, ahead);
    }
  }

  /// Of a strip, so that `rows` rows of so many columns are the fewest tiles.
  static TESSERA_INLINE std::int64_t vectors_for(std::int64_t rows, std::int64_t columns) {
    const std::int64_t all = (columns + kLanes - 1) / kLanes;
    std::int64_t best = kVectors, fewest = INT64_MAX;
    for (std::int64_t most = std::min<std::int64_t>(kVectors, all); most > 0; --most) {
      const std::int64_t strips = (all + most - 1) / most, high = most_rows(most);
      const std::int64_t tiles = strips * ((rows + high - 1) / high);
      if (tiles < fewest) best = most, fewest = tiles;
    }
    return best;
  }

  static TESSERA_INLINE std::int64_t tiles_of(const RowRange<T>& range, std::int64_t most) {
    return (range.rows + most - 1) / most;
  }
  /// So that what is asked for is all of it, by when the tiles are done.
  static TESSERA_INLINE void pace(const BlockJob<T>& job, std::int64_t most, Ahead<T>* ahead) {
    std::int64_t tiles = 0, chunks = 0, rows = 0;
    for (std::int64_t i = 0; i < job.rows.range_count; ++i) {
      tiles += tiles_of(job.rows.ranges[i], most);
    }
    for (std::int64_t t = 0; t < job.terms.count; ++t) {
      chunks += (job.terms.terms[t].k + kChunk - 1) / kChunk;
    }
    for (std::int64_t t = 0; t < ahead->terms; ++t) rows += ahead->term[t].k;
    const std::int64_t times = std::max<std::int64_t>(tiles * chunks, 1);
    ahead->each = (rows + times - 1) / times;
  }

  using Terms = SmallVector<typename BatchGemm<T>::Term, 32>;
  /// What a lot adds of the terms of the block.
  static TESSERA_INLINE void list_terms(const BlockJob<T>& job,
                                        const typename BatchGemm<T>::Lot& lot,
                                        const Strip<T>& strip, std::int64_t width, Terms* out) {
    const BatchGemm<T>& g = *job.all;
    out->clear();
    const T* packed = strip.packed;
    const std::int64_t b_row = packed != nullptr ? width : g.b_row;
    for (std::int64_t t = 0; t < job.terms.count; ++t) {
      const auto& term = job.terms.terms[t];
      const PartOf of = job.terms.of[t];
      const std::int64_t first = std::clamp<std::int64_t>(lot.first - of.first, 0, term.k);
      const std::int64_t last = std::clamp<std::int64_t>(lot.last - of.first, first, term.k);
      if (last > first && (lot.terms == nullptr || lot.terms[of.term] != 0)) {
        const T* const b = packed != nullptr ? packed : term.b + strip.column;
        out->push_back({term.a + first * g.a_column, b + first * b_row, last - first});
      }
      if (packed != nullptr) packed += term.k * width;
    }
  }

  /// Takes so many rows: whether they are equally far apart.
  static TESSERA_INLINE bool take_rows(const BatchGemm<T>& g, std::int64_t count, bool each,
                                       RowPlace<T>* next, TileOf<T>* at) {
    if (next->row == next->lot->m) ++next->lot, next->row = 0;
    const bool even = next->row + count <= next->lot->m;
    for (std::int64_t r = 0; r < (even && !each ? 1 : count); ++r, ++next->row) {
      if (next->row == next->lot->m) ++next->lot, next->row = 0;
      at->a[r] = next->lot->a + next->row * g.a_row;
      at->c[r] = next->lot->c + next->row * g.c_row;
    }
    if (even && !each) next->row += count - 1;
    return even;
  }

  /// All rows, in tiles of heights that differ by at most one.
  template <int vectors>
  static TESSERA_INLINE void rows(const BlockJob<T>& job, Strip<T> strip, Ahead<T> ahead) {
    const BatchGemm<T>& g = *job.all;
    constexpr std::int64_t kWidth = vectors * kLanes, kMost = most_rows(vectors);
    const std::int64_t terms = job.terms.count;
    const bool whole = g.b_column == 1 && strip.columns == kWidth;
    const bool packed = whole && g.b_row == kWidth;
    if (ahead.terms > 0) pace(job, kMost, &ahead);
    bool packs = false;
    if (!packed && (job.pack || strip.columns % kLanes != 0)) {
      // The first tile packs whole rows as it reads them, if it is one of the highest.
      const RowRange<T>& first = job.rows.ranges[0];
      packs = whole && first.rows >= kMost && terms > 0 && first.whole();
      if (!packs) {
        pack<vectors>(job, strip);
        strip.packed = job.packed;
      }
    }
    Terms list;
    for (std::int64_t i = 0; i < job.rows.range_count; ++i) {
      const RowRange<T>& range = job.rows.ranges[i];
      list_terms(job, *range.lots, strip, kWidth, &list);
      TileOf<T> at{};
      const auto set_terms = [&] {
        at.terms = list.data();
        at.count = std::int64_t(list.size());
        at.b_row = strip.packed != nullptr ? kWidth : g.b_row;
      };
      set_terms();
      RowPlace<T> next{range.lots, 0};
      std::int64_t left = range.rows, tiles = tiles_of(range, kMost);
      if (packs) {
        take_rows(g, kMost, true, &next, &at);
        tile<kMost, vectors, TileKind::packing>(job, at, strip, &ahead);
        strip.packed = job.packed;
        list_terms(job, *range.lots, strip, kWidth, &list);
        set_terms();
        left -= kMost;
        --tiles;
        packs = false;
      }
      if (tiles == 0) continue;
      const std::int64_t low = left / tiles;
      for (std::int64_t higher = left % tiles; tiles > 0; --tiles, --higher) {
        const std::int64_t count = low + (higher > 0 ? 1 : 0);
        if (!take_rows(g, count, false, &next, &at)) {
          tile_of<vectors, kMost, TileKind::uneven>(job, at, count, strip, &ahead);
        } else if (ahead.terms > 0) {
          tile_of<vectors, kMost, TileKind::even_asking>(job, at, count, strip, &ahead);
        } else {
          tile_of<vectors, kMost, TileKind::even>(job, at, count, strip, &ahead);
        }
      }
    }
  }
  /// Of a height up to `most`.
  template <int vectors, std::int64_t most, TileKind kind>
  static TESSERA_INLINE void tile_of(const BlockJob<T>& job, const TileOf<T>& at,
                                     std::int64_t count, const Strip<T>& strip, Ahead<T>* ahead) {
    if constexpr (most > 1) {
      if (count < most) return tile_of<vectors, most - 1, kind>(job, at, count, strip, ahead);
    }
    tile<most, vectors, kind>(job, at, strip, ahead);
  }

  template <int vectors>
  static TESSERA_INLINE void pack(const BlockJob<T>& job, const Strip<T>& strip) {
    const BatchGemm<T>& g = *job.all;
    T* to = job.packed;
    for (std::int64_t t = 0; t < job.terms.count; ++t) {
      const auto& term = job.terms.terms[t];
      pack_rows<Simd, vectors>(term.b + strip.column * g.b_column, g.b_row, g.b_column,
                               strip.columns, 0, term.k, to);
      to += term.k * vectors * kLanes;
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_block(const BlockJob<T>& job) {
  using Of = Tiles<T, bytes>;
  const std::int64_t columns = job.end - job.begin;
  const std::int64_t widest = Of::vectors_for(job.rows.count, columns) * Of::kLanes;
  // Strips that differ by a vector at most.
  const std::int64_t strips = (columns + widest - 1) / widest;
  const std::int64_t width =
      ((columns + strips - 1) / strips + Of::kLanes - 1) / Of::kLanes * Of::kLanes;
  for (std::int64_t column = job.begin; column < job.end; column += width) {
    const Strip<T> strip{column, std::min(width, job.end - column), nullptr};
    const std::int64_t vectors = (strip.columns + Of::kLanes - 1) / Of::kLanes;
    Ahead<T> ahead;
    if (job.asks) {
      const bool last = column + width >= job.end;
      const TermRange<T>& next = last ? job.next : job.terms;
      ahead.term = next.terms;
      ahead.terms = next.count;
      ahead.column = last ? job.next_begin : column + width;
      ahead.lines = (width + Of::kLine - 1) / Of::kLine;
    }
    if constexpr (Of::kVectors == 4) {
      if (vectors == 4) {
        Of::template rows<4>(job, strip, ahead);
        continue;
      }
      if (vectors == 3) {
        Of::template rows<3>(job, strip, ahead);
        continue;
      }
    }
    if (vectors == 2) {
      Of::template rows<2>(job, strip, ahead);
    } else {
      Of::template rows<1>(job, strip, ahead);
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

namespace {

template <class T>
typename BatchGemm<T>::Lot lot_of(const BatchGemm<T>& job, std::int64_t l) {
  typename BatchGemm<T>::Lot lot;
  if (job.lots != nullptr) lot = job.lots[l];
  if (lot.m == 0) lot.m = job.m;
  return lot;
}

/// The lots of a job, and which of them in a row sum up the same.
template <class T>
class Lots {
 public:
  using Lot = typename BatchGemm<T>::Lot;

  explicit Lots(const BatchGemm<T>& job) {
    for (std::int64_t l = 0; l < job.lot_count; ++l) {
      lots_.push_back(lot_of(job, l));
      if (lots_.back().m == 0) lots_.pop_back();
    }
    for (const Lot& lot : lots_) {
      if (!ranges_.empty() && lot.sums_up_the_same(*ranges_.back().lots)) {
        ranges_.back().rows += lot.m;
      } else {
        ranges_.push_back({&lot, lot.m});
      }
      count_ += lot.m;
    }
  }
  RowList<T> rows() const { return {ranges_.data(), std::int64_t(ranges_.size()), count_}; }

 private:
  SmallVector<Lot, 16> lots_;
  SmallVector<RowRange<T>, 4> ranges_;
  std::int64_t count_ = 0;
};

/// The terms of a job, in blocks that are so deep.
template <class T>
class Blocks {
 public:
  Blocks(const BatchGemm<T>& job, std::int64_t depth) {
    std::int64_t in_block = 0;
    for (std::int64_t t = 0; t < job.count; ++t) {
      const auto& term = job.terms[t];
      for (std::int64_t k = 0; k < term.k;) {
        const std::int64_t now = std::min(term.k - k, depth - in_block);
        terms_.push_back({term.a + k * job.a_column, term.b + k * job.b_row, now});
        of_.push_back({t, k});
        k += now;
        in_block += now;
        if (in_block < depth) continue;
        ends_.push_back(std::int64_t(terms_.size()));
        in_block = 0;
      }
      depth_ += term.k;
    }
    if (in_block > 0) ends_.push_back(std::int64_t(terms_.size()));
  }
  std::int64_t count() const { return std::int64_t(ends_.size()); }
  std::int64_t depth() const { return depth_; }  ///< of all
  TermRange<T> of(std::int64_t i) const {
    const std::int64_t first = i == 0 ? 0 : ends_[std::size_t(i - 1)];
    return {terms_.data() + first, of_.data() + first, ends_[std::size_t(i)] - first};
  }

 private:
  SmallVector<typename BatchGemm<T>::Term, 8> terms_;
  SmallVector<PartOf, 8> of_;
  SmallVector<std::int64_t, 8> ends_;
  std::int64_t depth_ = 0;
};

template <class T>
void batch_gemm_rows(const BatchGemm<T>& job) {
  constexpr std::int64_t kElement = sizeof(T), kPanel = kPanelBytes / kElement;
  constexpr std::int64_t kWidestStrip = 4 * 64;
  const Lots<T> lots(job);
  const std::int64_t count = lots.rows().count;
  if (count == 0) return;
  const std::int64_t width = std::clamp<std::int64_t>(job.n, 1, kPanel);
  const std::int64_t depth = std::clamp<std::int64_t>(kBlockBytes / (kElement * width), 64,
                                                      job.a_column == 1 ? 2048 : kMostApart);
  const Blocks<T> blocks(job, depth);
  const bool pack = job.b_column != 1 || count >= kRowsForPacking;
  const bool packs = pack || job.n % batch_gemm_lanes<T>() != 0;
  const ScratchMemory memory(packs ? std::size_t(std::min(depth, blocks.depth()) * kWidestStrip)
                                   : 0);
  BlockJob<T> of{};
  of.all = &job;
  of.rows = lots.rows();
  of.asks = job.b_column == 1 && blocks.depth() * job.n * kElement > kKeptBytes;
  of.packed = reinterpret_cast<T*>(memory.data());
  of.pack = pack;
  const auto block = block_version<T>();
  for (of.begin = 0; of.begin < job.n; of.begin = of.end) {
    of.end = std::min(of.begin + kPanel, job.n);
    of.accumulate = job.accumulate;
    if (blocks.count() == 0 && !job.accumulate) block(of);  // zeros
    for (std::int64_t i = 0; i < blocks.count(); ++i) {
      of.terms = blocks.of(i);
      of.next = {};
      if (i + 1 < blocks.count()) {
        of.next = blocks.of(i + 1);
        of.next_begin = of.begin;
      } else if (of.end < job.n) {
        of.next = blocks.of(0);
        of.next_begin = of.end;
      }
      block(of);
      of.accumulate = true;
    }
  }
}

}  // namespace

template <class T>
void batch_gemm(const BatchGemm<T>& job) {
  std::int64_t most = 0;
  for (std::int64_t l = 0; l < job.lot_count; ++l) most = std::max(most, lot_of(job, l).m);
  if (most <= kBlockRows) return batch_gemm_rows(job);
  BatchGemm<T> part = job;
  std::vector<typename BatchGemm<T>::Lot> lots;
  // Blocks of nearly the same height.
  for (std::int64_t row = 0, left = (most + kBlockRows - 1) / kBlockRows; left > 0; --left) {
    const std::int64_t m =
        ((most - row + left - 1) / left + kBatchGemmRows - 1) / kBatchGemmRows * kBatchGemmRows;
    lots.clear();
    for (std::int64_t l = 0; l < job.lot_count; ++l) {
      typename BatchGemm<T>::Lot lot = lot_of(job, l);
      lot.a += row * job.a_row;
      lot.c += row * job.c_row;
      lot.m = std::min(lot.m - row, m);
      if (lot.m > 0) lots.push_back(lot);
    }
    part.lots = lots.data();
    part.lot_count = std::int64_t(lots.size());
    batch_gemm_rows(part);
    row += m;
  }
}

template <class T>
void batch_gemm(const MatrixProduct<T>& p, bool accumulate) {
  const typename BatchGemm<T>::Term term{p.a, p.b, p.k};
  BatchGemm<T> job;
  job.terms = &term;
  job.count = 1;
  job.m = p.m;
  job.n = p.n;
  job.a_row = p.a_row;
  job.a_column = p.a_column;
  job.b_row = p.b_row;
  job.b_column = p.b_column;
  job.c = p.c;
  job.c_row = p.c_row;
  job.accumulate = accumulate;
  batch_gemm(job);
}

template void batch_gemm(const BatchGemm<float>&);
template void batch_gemm(const BatchGemm<double>&);
template void batch_gemm(const MatrixProduct<float>&, bool);
template void batch_gemm(const MatrixProduct<double>&, bool);
template std::int64_t batch_gemm_lanes<float>();
template std::int64_t batch_gemm_lanes<double>();

}  // namespace tessera::codegen
