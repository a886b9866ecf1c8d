// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Sums of each lane stay in registers: of some lines of b by a group of rows of a.
#include "src/codegen/kernels/products/thin_gemm.h"

#include <algorithm>
#include <type_traits>

#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// `packed`: rows of a by groups, of each of which the vectors of all rows follow one another. The
/// last vector of a row ends with it; what the one before has, too, is zero.
template <class T>
struct ThinJob : MatrixProduct<T> {
  T* packed = nullptr;
};

template <class T, int bytes>
struct Thin {
  using W = Vectors<T, bytes>;
  using V = typename W::V;
  static constexpr int kLanes = W::kLanes;
  /// Rows of a group, at most.
  static constexpr int kGroup = 6;
  /// Lines of b beside a group of so many rows: their sums and one vector of each line are to be
  /// in registers.
  static constexpr int lines_for(int rows) { return bytes == 64 ? 4 : rows > 4 ? 2 : 3; }
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Bits Mask __attribute__((vector_size(bytes)));

  static TESSERA_INLINE void pack(const ThinJob<T>& a, std::int64_t first, int rows, T* to) {
    for (std::int64_t k = 0; k < a.k; k += kLanes) {
      const std::int64_t begin = std::min(k, a.k - kLanes);
      for (int r = 0; r < rows; ++r, to += kLanes) {
        const T* from = a.a + (first + r) * a.a_row + begin * a.a_column;
        if (begin == k && a.a_column == 1) {
          W::store(to, W::load(from));
          continue;
        }
        for (std::int64_t l = 0; l < kLanes; ++l) {
          to[l] = begin + l < k ? T(0) : from[l * a.a_column];
        }
      }
    }
  }

  template <int rows, int lines>
  static TESSERA_INLINE void tile(const ThinJob<T>& a, const T* x, std::int64_t first,
                                  std::int64_t line, Mask last) {
    V sum[rows][lines] = {};
    const T* b = a.b + line * a.b_column;
    const auto add = [&](const V* of_b) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const V of_a = W::load(x + r * kLanes);
#pragma GCC unroll 4
        for (int l = 0; l < lines; ++l) sum[r][l] += of_a * of_b[l];
      }
      x += rows * kLanes;
    };
    V of_b[lines];
    std::int64_t k = 0;
    for (; k + kLanes <= a.k; k += kLanes) {
#pragma GCC unroll 4
      for (int l = 0; l < lines; ++l) of_b[l] = W::load(b + l * a.b_column + k);
      add(of_b);
    }
    if (k < a.k) {
#pragma GCC unroll 4
      for (int l = 0; l < lines; ++l) {
        of_b[l] = V(Mask(W::load(b + l * a.b_column + a.k - kLanes)) & last);
      }
      add(of_b);
    }
    constexpr int kSums = rows * lines;
    V all[(kSums + 3) / 4 * 4] = {};
    T total[(kSums + 3) / 4 * 4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int l = 0; l < lines; ++l) all[r * lines + l] = sum[r][l];
    }
#pragma GCC unroll 8
    for (int s = 0; s < kSums; s += 4) W::sums(all + s, total + s);
    T* c = a.c + first * a.c_row + line * a.c_column;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r, c += a.c_row) {
#pragma GCC unroll 4
      for (int l = 0; l < lines; ++l) c[l * a.c_column] = total[r * lines + l];
    }
  }

  /// Lines [line, line + lines) by rows [first, first + rows), `rows` up to `most`.
  template <int most, int lines>
  static TESSERA_INLINE void group(const ThinJob<T>& a, const T* x, std::int64_t first,
                                   std::int64_t rows, std::int64_t line, Mask last) {
    if constexpr (most > 1) {
      if (rows < most) return group<most - 1, lines>(a, x, first, rows, line, last);
    }
    tile<most, lines>(a, x, first, line, last);
  }

  /// All lines, for groups of at most so many rows.
  template <int most>
  static TESSERA_INLINE void by_groups(const ThinJob<T>& a, std::int64_t groups, Mask last) {
    constexpr int kLines = lines_for(most);
    const std::int64_t steps = (a.k + kLanes - 1) / kLanes;
    for (std::int64_t line = 0; line < a.n;) {
      const bool together = line + kLines <= a.n;
      for (std::int64_t left = groups, first = 0; left > 0; --left) {
        const std::int64_t rows = (a.m - first + left - 1) / left;
        const T* x = a.packed + first * steps * kLanes;
        if (together) {
          group<most, kLines>(a, x, first, rows, line, last);
        } else {
          group<most, 1>(a, x, first, rows, line, last);
        }
        first += rows;
      }
      line += together ? kLines : 1;
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_thin(const ThinJob<T>& job) {
  using Tile = Thin<T, bytes>;
  constexpr int kLanes = Tile::kLanes;
  const ThinJob<T> a = job;  // in registers, which what is written doesn't alias
  const std::int64_t steps = (a.k + kLanes - 1) / kLanes;
  const std::int64_t groups = (a.m + Tile::kGroup - 1) / Tile::kGroup;
  for (std::int64_t left = groups, first = 0; left > 0; --left) {
    const std::int64_t rows = (a.m - first + left - 1) / left;
    Tile::pack(a, first, int(rows), a.packed + first * steps * kLanes);
    first += rows;
  }
  typename Tile::Mask last = {};
  for (int l = 0; l < kLanes; ++l) last[l] = a.k - kLanes + l < (steps - 1) * kLanes ? 0 : -1;
  const std::int64_t most = (a.m + groups - 1) / groups;
  if (most > 4) return Tile::template by_groups<Tile::kGroup>(a, groups, last);
  Tile::template by_groups<4>(a, groups, last);
}
TESSERA_VERSIONS(thin_version, run_thin, ThinJob<T>)

}  // namespace

template <class T>
void thin_gemm(const MatrixProduct<T>& given) {
  if (given.m == 0 || given.n == 0) return;
  const std::int64_t lanes = version_for_machine(16, 32, 64) / std::int64_t(sizeof(T));
  if (given.k < lanes) {
    for (std::int64_t i = 0; i < given.m; ++i) {
      for (std::int64_t j = 0; j < given.n; ++j) {
        const T *a = given.a + i * given.a_row, *b = given.b + j * given.b_column;
        T sum = 0;
        for (std::int64_t k = 0; k < given.k; ++k) sum += a[k * given.a_column] * b[k];
        given.c[i * given.c_row + j * given.c_column] = sum;
      }
    }
    return;
  }
  ThinJob<T> job{given};
  const std::int64_t steps = (job.k + lanes - 1) / lanes;
  const ScratchMemory memory(std::size_t(job.m * steps * lanes) * sizeof(T));
  job.packed = reinterpret_cast<T*>(memory.data());
  thin_version<T>()(job);
}

template void thin_gemm(const MatrixProduct<float>&);
template void thin_gemm(const MatrixProduct<double>&);

}  // namespace tessera::codegen
