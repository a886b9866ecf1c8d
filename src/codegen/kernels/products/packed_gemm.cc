// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/products/packed_gemm.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/pack_rows.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Of a that is packed at once: the second cache holds it next to what of b and c is at work. b is
/// read anew for each such block. With AVX-512 that cache has a megabyte at least.
std::int64_t block_bytes() {
  static const std::int64_t of_cache = [] {
    const std::int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return std::clamp<std::int64_t>(bytes / 4 * 3, 192 << 10, 512 << 10);
  }();
  return instruction_set() == InstructionSet::avx512 ? 512 << 10 : of_cache;
}
/// Products that are summed up in registers at once. A strip of b so deep stays in the first cache
/// while all tiles of a block go through it.
std::int64_t most_depth() { return version_for_machine(128, 256, 128); }
/// Rows of the highest tile, and vectors of the columns of the widest one. Its sums take most of
/// the registers, a row of b and a number of a the rest.
constexpr int rows_of(int bytes) { return bytes == 64 ? 8 : 4; }
/// Of the lowest one. Heights in between are those that leave no tile partly empty: all rows by
/// tiles that differ by one at most.
constexpr int least_rows_of(int bytes) { return rows_of(bytes) / 2; }
constexpr int kVectors = 3;
constexpr std::int64_t kMostRows = rows_of(64);
/// Depths are multiples of it, but for the last one.
constexpr std::int64_t kStep = 16;
/// Products in a row. In front of each second lot a row of c is asked for, in front of the others
/// one of b: a few lines at a time, so that the loads of the products don't wait for them.
constexpr std::int64_t kUnrolled = 4;

/// A tile's operands: a packed as [depth][height], b as [depth][vectors][lanes].
template <class T>
struct Tile {
  std::int64_t depth;
  const T* a;
  const T* b;
  T* c;
  std::int64_t c_row, rows, columns;
  bool accumulate;
  /// What of b is packed behind the tile: rows of lines, all so far apart.
  const T* next;
  std::int64_t next_rows, next_row, next_line;
};

/// Packed operands end with zeros, so that products come in whole lots.
constexpr std::int64_t padded(std::int64_t depth) {
  return (depth + 2 * kUnrolled - 1) / (2 * kUnrolled) * (2 * kUnrolled);
}

/// Columns of c, at a depth.
struct Strip {
  std::int64_t first_k, depth, column, columns;
};

template <class T, int bytes>
struct Packed {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kRows = rows_of(bytes), kLeastRows = least_rows_of(bytes);
  static constexpr std::int64_t kWidth = kVectors * kLanes;

  template <int height, int vectors>
  static TESSERA_INLINE void products(const T* a, const T* b, V (*sum)[vectors]) {
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < kUnrolled; ++k, a += height, b += vectors * kLanes) {
      V of_b[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) of_b[v] = Simd::load(b + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < height; ++r) {
        const T x = a[r];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
      }
    }
  }

  template <int height, int vectors>
  static TESSERA_INLINE void multiply(const Tile<T>& t) {
    V sum[height][vectors] = {};
    const T* a = t.a;
    const T* b = t.b;
    const T* next = t.next;
    const T* c = t.c;
    std::int64_t rows = t.rows, next_rows = t.next_rows;
    for (std::int64_t k = 0; k < t.depth; k += 2 * kUnrolled) {
      if (rows > 0) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(c + v * kLanes, 1);
        c += t.c_row;
        --rows;
      }
      products<height, vectors>(a, b, sum);
      if (next_rows > 0) {
        // Into the second cache: columns of a matrix meet in few places of the first one.
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(next + v * t.next_line, 0, 2);
        next += t.next_row;
        --next_rows;
      }
      products<height, vectors>(a + kUnrolled * height, b + kUnrolled * vectors * kLanes, sum);
      a += 2 * kUnrolled * height;
      b += 2 * kUnrolled * vectors * kLanes;
    }
    if (t.rows == height && t.columns == vectors * kLanes) {
      T* to = t.c;
#pragma GCC unroll 8
      for (int r = 0; r < height; ++r, to += t.c_row) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          T* at = to + v * kLanes;
          Simd::store(at, t.accumulate ? Simd::load(at) + sum[r][v] : sum[r][v]);
        }
      }
      return;
    }
    T part[height][vectors * kLanes];
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) Simd::store(part[r] + v * kLanes, sum[r][v]);
    }
    for (std::int64_t r = 0; r < t.rows; ++r) {
      T* to = t.c + r * t.c_row;
      for (std::int64_t n = 0; n < t.columns; ++n) {
        to[n] = t.accumulate ? to[n] + part[r][n] : part[r][n];
      }
    }
  }

  /// Rows of the next tile, of those that are left, and how high it is: lower ones than the least
  /// are packed as if there were more.
  static TESSERA_INLINE std::int64_t rows_of_tile(std::int64_t left) {
    const std::int64_t tiles = (left + kRows - 1) / kRows;
    return (left + tiles - 1) / tiles;
  }
  static TESSERA_INLINE std::int64_t height_of(std::int64_t rows) {
    return std::max<std::int64_t>(rows, kLeastRows);
  }

  /// Rows [0, rows) of a, in tiles, those that are missing in the last one being zero. What is
  /// stored reaches beyond a row that is shorter than the highest one, into what comes behind it.
  static TESSERA_INLINE void pack_a(const MatrixProduct<T>& g, const T* a, std::int64_t rows,
                                    std::int64_t depth, T* to) {
    const std::int64_t zeros = padded(depth) - depth;
    using Column = Vectors<T, kRows* int(sizeof(T))>;
    for (std::int64_t row = 0, valid; row < rows; row += valid, a += valid * g.a_row) {
      valid = rows_of_tile(rows - row);
      const std::int64_t height = height_of(valid);
      std::int64_t k = 0;
      if (valid == height && g.a_column == 1) {
        for (; k + kRows <= depth; k += kRows, to += kRows * height) {
          typename Column::V square[kRows];
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            // In place of a row that the tile doesn't have, its last one.
            square[r] = Column::load(a + std::min<std::int64_t>(r, height - 1) * g.a_row + k);
          }
          Column::transpose(square);
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) Column::store(to + r * height, square[r]);
        }
      } else if (valid == height && g.a_row == 1 && row + kRows <= rows) {
        for (; k < depth; ++k, to += height) Column::store(to, Column::load(a + k * g.a_column));
      }
      for (; k < depth; ++k, to += height) {
        for (std::int64_t r = 0; r < height; ++r) {
          to[r] = r < valid ? a[r * g.a_row + k * g.a_column] : T(0);
        }
      }
      std::fill_n(to, zeros * height, T(0));
      to += zeros * height;
    }
  }

  static TESSERA_INLINE int vectors_of(const Strip& s) {
    return int((s.columns + kLanes - 1) / kLanes);
  }
  static TESSERA_INLINE void pack(const MatrixProduct<T>& g, const Strip& s, std::int64_t begin,
                                  std::int64_t end, T* to) {
    const T* b = g.b + s.first_k * g.b_row + s.column * g.b_column;
    const int vectors = vectors_of(s);
    if (end == s.depth) {
      std::fill_n(to + end * vectors * kLanes, (padded(end) - end) * vectors * kLanes, T(0));
    }
    to += begin * vectors * kLanes;
    if (vectors == 3) {
      return pack_rows<Simd, 3>(b, g.b_row, g.b_column, s.columns, begin, end, to);
    }
    if (vectors == 2) {
      return pack_rows<Simd, 2>(b, g.b_row, g.b_column, s.columns, begin, end, to);
    }
    pack_rows<Simd, 1>(b, g.b_row, g.b_column, s.columns, begin, end, to);
  }
  static TESSERA_INLINE void multiply(const Tile<T>& t, int vectors) {
    if (vectors == 3) return multiply_by<kRows, 3>(t);
    if (vectors == 2) return multiply_by<kRows, 2>(t);
    multiply_by<kRows, 1>(t);
  }
  /// Of a height up to `most`.
  template <int most, int vectors>
  static TESSERA_INLINE void multiply_by(const Tile<T>& t) {
    if constexpr (most > kLeastRows) {
      if (t.rows < most) return multiply_by<most - 1, vectors>(t);
    }
    multiply<most, vectors>(t);
  }
};

template <class T>
struct BlockJob {
  const MatrixProduct<T>* all;
  std::int64_t first_row, rows;
  std::int64_t depth;  ///< of a block, but the last one
  T *a, *b, *next_b;   ///< room for a block of a, and for two strips of b
};

/// Parts of [0, n) that differ by `step` at most, none larger than `most`, a multiple of `step`.
std::int64_t even_part(std::int64_t n, std::int64_t most, std::int64_t step) {
  const std::int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + step - 1) / step * step;
}

template <class T, int bytes>
TESSERA_INLINE void run_block(const BlockJob<T>& job) {
  using P = Packed<T, bytes>;
  const MatrixProduct<T>& g = *job.all;
  constexpr std::int64_t kRows = P::kRows;
  const std::int64_t depth = job.depth;
  const std::int64_t width = even_part(g.n, P::kWidth, P::kLanes);
  const std::int64_t tiles = (job.rows + kRows - 1) / kRows;
  const bool transposed = g.b_row == 1 && g.b_column != 1;  // packed by squares of a vector's lanes
  T *b = job.b, *next_b = job.next_b;
  Strip strip{0, std::min(depth, g.k), 0, std::min(width, g.n)};
  P::pack(g, strip, 0, strip.depth, b);
  while (strip.depth > 0) {
    if (strip.column == 0) {
      P::pack_a(g, g.a + job.first_row * g.a_row + strip.first_k * g.a_column, job.rows,
                strip.depth, job.a);
    }
    Strip next = strip;
    next.column += width;
    if (next.column >= g.n) {
      next.first_k += depth;
      next.column = 0;
      next.depth = std::max<std::int64_t>(std::min(depth, g.k - next.first_k), 0);
    }
    next.columns = std::min(width, g.n - next.column);
    // Behind each tile a share of the next strip is packed, which was asked for meanwhile.
    const std::int64_t share = (next.depth + tiles - 1) / tiles;
    const std::int64_t step = transposed ? (share + P::kLanes - 1) / P::kLanes * P::kLanes : share;
    const T* a = job.a;
    for (std::int64_t row = 0, packed = 0, rows; row < job.rows; row += rows) {
      rows = P::rows_of_tile(job.rows - row);
      const std::int64_t end = std::min(packed + step, next.depth);
      const T* from = g.b + (next.first_k + packed) * g.b_row + next.column * g.b_column;
      const Tile<T> t{padded(strip.depth),
                      a,
                      b,
                      g.c + (job.first_row + row) * g.c_row + strip.column,
                      g.c_row,
                      rows,
                      strip.columns,
                      strip.first_k > 0,
                      from,
                      packed == end ? 0
                      : transposed  ? P::kLanes
                                    : end - packed,
                      transposed ? g.b_column : g.b_row,
                      transposed ? P::kLanes * g.b_column : P::kLanes};
      P::multiply(t, P::vectors_of(strip));
      a += P::height_of(rows) * padded(strip.depth);
      if (packed < end) P::pack(g, next, packed, end, next_b);
      packed = end;
    }
    std::swap(b, next_b);
    strip = next;
  }
}
TESSERA_VERSIONS(block_version, run_block, BlockJob<T>)

}  // namespace

bool packed_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k) {
  // Measured on Zen 4 while all tiles here were equally high, so that the last one was partly
  // empty.
  constexpr std::int64_t kRows = rows_of(64);
  if (instruction_set() == InstructionSet::avx512 && !is_intel() && m < 8 * kRows &&
      10 * ((m + kRows - 1) / kRows * kRows - m) > m) {
    return false;
  }
  return instruction_set() != InstructionSet::baseline && m >= 32 && n >= 160 && k >= 32 &&
         double(m) * double(n) * double(k) > 4e5;
}

template <class T>
void packed_gemm(const MatrixProduct<T>& job) {
  constexpr std::int64_t kLine = 64 / std::int64_t(sizeof(T)), kWidest = kVectors * kLine;
  if (job.m == 0 || job.n == 0) return;
  const std::int64_t most = block_bytes() / (std::int64_t(sizeof(T)) * most_depth());
  const std::int64_t depth = even_part(job.k, most_depth(), kStep);
  const std::int64_t rows = even_part(job.m, most, kMostRows);
  // With room for what is stored behind the last tile.
  const std::int64_t of_a = (rows + kMostRows) * padded(depth), of_b = padded(depth) * kWidest;
  const ScratchMemory memory(sizeof(T) * std::size_t(of_a + 2 * of_b));
  T* a = reinterpret_cast<T*>(memory.data());
  const auto block = block_version<T>();
  for (std::int64_t first = 0; first < job.m; first += rows) {
    block({&job, first, std::min(rows, job.m - first), depth, a, a + of_a, a + of_a + of_b});
  }
}

template void packed_gemm(const MatrixProduct<float>&);
template void packed_gemm(const MatrixProduct<double>&);

}  // namespace tessera::codegen
