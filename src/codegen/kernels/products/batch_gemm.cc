// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Tiles of c stay in registers while the terms go by.
#include "src/codegen/kernels/products/batch_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/small_vector.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/pack_rows.h"
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

/// Products in a row, before some of the next strip is asked for.
constexpr std::int64_t kChunk = 16;
/// So much of b stays in the second cache from one call to the next.
constexpr std::int64_t kKeptBytes = 256 << 10;

/// Terms that are summed up at once, and which ones of the job those are parts of.
template <class T>
struct TermRange {
  const typename BatchGemm<T>::Term* terms = nullptr;
  const std::int64_t* of = nullptr;
  std::int64_t count = 0;
};

/// Rows of lots with the same terms.
struct RowRange {
  std::int64_t begin, end;             ///< rows
  std::int64_t first_term, last_term;  ///< of the job: [first, last)
};

/// All rows: where they begin, behind those of the terms and of c.
struct RowList {
  const std::int64_t* a;
  const std::int64_t* c;
  const RowRange* ranges;
  std::int64_t range_count;
  std::int64_t count;
};

/// Terms of a block, and the columns of c that they are summed up in.
template <class T>
struct BlockJob {
  const BatchGemm<T>* all;
  RowList rows;
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
/// Of rows from `row` on, and terms [first, last) of the block.
template <class T>
struct TileOf {
  std::int64_t row, first, last;
  const T* packed;  ///< the strip, from the first of these terms on
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
    constexpr std::int64_t kOf32[] = {8, 8, 8, 6}, kOf16[] = {8, 6};
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

  template <int rows, int vectors, TileKind kind>
  static TESSERA_INLINE void run(const BlockJob<T>& job, const TileOf<T>& at, const Strip<T>& strip,
                                 Ahead<T>* ahead) {
    const BatchGemm<T>& g = *job.all;
    constexpr std::int64_t kWidth = vectors * kLanes;
    V sum[rows][vectors] = {};
    constexpr bool kPacks = kind == TileKind::packing,
                   kEven = kind == TileKind::even || kind == TileKind::even_asking;
    const T* packed = kPacks ? nullptr : at.packed;
    const std::int64_t a_first = job.rows.a[at.row], c_first = job.rows.c[at.row];
    T* to_pack = job.packed;
    for (std::int64_t t = at.first; t < at.last; ++t) {
      const auto& term = job.terms.terms[t];
      const T* row = term.a + a_first;
      const T* a[kEven ? 1 : rows];
#pragma GCC unroll 8
      for (int r = 0; r < rows && !kEven; ++r) {
        a[r] = term.a + job.rows.a[at.row + r];
        // A register of its own, rather than a distance from another one that is read each time.
        __asm__("" : "+r"(a[r]));
      }
      const T* b = packed != nullptr ? packed : term.b + strip.column;
      const std::int64_t b_row = packed != nullptr ? kWidth : g.b_row;
      std::int64_t in_row = 0;
      for (std::int64_t left = term.k, chunk; left > 0; left -= chunk) {
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
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r) {
            // As a scalar: a vector made of it here would be a sum with zero and a shuffle.
            const T x = kEven ? row[r * g.a_row] : a[kEven ? 0 : r][in_row];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
          }
          if constexpr (kEven) {
            row += g.a_column;
          } else {
            in_row += g.a_column;
          }
        }
      }
      if (packed != nullptr) packed = b;
    }
    const std::int64_t cut = strip.columns - (vectors - 1) * kLanes;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T* const c = g.c + (kEven ? c_first + r * g.c_row : job.rows.c[at.row + r]) + strip.column;
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

  static TESSERA_INLINE std::int64_t tiles_of(const RowRange& range, std::int64_t most) {
    return (range.end - range.begin + most - 1) / most;
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
      const RowRange& first = job.rows.ranges[0];
      packs = whole && first.end - first.begin >= kMost && terms > 0 &&
              job.terms.of[0] >= first.first_term && job.terms.of[terms - 1] < first.last_term;
      if (!packs) pack<vectors>(job, strip);
      strip.packed = job.packed;
    }
    for (std::int64_t i = 0; i < job.rows.range_count; ++i) {
      const RowRange& range = job.rows.ranges[i];
      TileOf<T> at{range.begin, 0, terms, strip.packed};
      for (; at.first < terms && job.terms.of[at.first] < range.first_term; ++at.first) {
        if (strip.packed != nullptr) at.packed += job.terms.terms[at.first].k * kWidth;
      }
      while (at.last > at.first && job.terms.of[at.last - 1] >= range.last_term) --at.last;
      for (std::int64_t left = tiles_of(range, kMost); left > 0; --left) {
        if (packs) {
          tile<kMost, vectors, TileKind::packing>(job, at, strip, &ahead);
          at.row += kMost;
          packs = false;
          continue;
        }
        const std::int64_t count = (range.end - at.row + left - 1) / left;
        if (g.lot_count == 1 || at.row % g.m + count <= g.m) {
          if (ahead.terms > 0) {
            tile_of<vectors, kMost, TileKind::even_asking>(job, at, count, strip, &ahead);
          } else {
            tile_of<vectors, kMost, TileKind::even>(job, at, count, strip, &ahead);
          }
        } else {
          tile_of<vectors, kMost, TileKind::uneven>(job, at, count, strip, &ahead);
        }
        at.row += count;
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

/// The rows of a job, one after the other.
template <class T>
class Rows {
 public:
  explicit Rows(const BatchGemm<T>& job)
      : count_(job.m * job.lot_count), memory_(std::size_t(count_) * 2 * sizeof(std::int64_t)) {
    auto* a = reinterpret_cast<std::int64_t*>(memory_.data());
    std::int64_t* c = a + count_;
    list_ = {a, c, nullptr, 0, count_};
    for (std::int64_t l = 0; l < job.lot_count; ++l) {
      const typename BatchGemm<T>::Lot lot =
          job.lots == nullptr ? typename BatchGemm<T>::Lot() : job.lots[l];
      for (std::int64_t i = 0; i < job.m; ++i) {
        *a++ = lot.a + i * job.a_row;
        *c++ = lot.c + i * job.c_row;
      }
      const std::int64_t end = (l + 1) * job.m;
      if (!ranges_.empty() && ranges_.back().first_term == lot.begin &&
          ranges_.back().last_term == lot.end) {
        ranges_.back().end = end;
      } else {
        ranges_.push_back({l * job.m, end, lot.begin, lot.end});
      }
    }
  }
  RowList list() const {
    RowList out = list_;
    out.ranges = ranges_.data();
    out.range_count = std::int64_t(ranges_.size());
    return out;
  }

 private:
  const std::int64_t count_;
  const ScratchMemory memory_;
  SmallVector<RowRange, 4> ranges_;
  RowList list_;
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
        of_.push_back(t);
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
  SmallVector<std::int64_t, 8> of_, ends_;
  std::int64_t depth_ = 0;
};

template <class T>
void batch_gemm_rows(const BatchGemm<T>& job) {
  constexpr std::int64_t kElement = sizeof(T), kPanel = kPanelBytes / kElement;
  constexpr std::int64_t kWidestStrip = 4 * 64;
  if (job.m * job.lot_count == 0) return;
  const std::int64_t width = std::clamp<std::int64_t>(job.n, 1, kPanel);
  const std::int64_t depth = std::clamp<std::int64_t>(kBlockBytes / (kElement * width), 64,
                                                      job.a_column == 1 ? 2048 : kMostApart);
  const Rows<T> rows(job);
  const Blocks<T> blocks(job, depth);
  const bool pack = job.b_column != 1 || job.m * job.lot_count >= kRowsForPacking;
  const bool packs = pack || job.n % batch_gemm_lanes<T>() != 0;
  const ScratchMemory memory(packs ? std::size_t(std::min(depth, blocks.depth()) * kWidestStrip)
                                   : 0);
  BlockJob<T> of{};
  of.all = &job;
  of.rows = rows.list();
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
