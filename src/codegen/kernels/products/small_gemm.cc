// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/products/small_gemm.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Of a matrix b: all tiles of a matrix read it from the first cache.
constexpr std::int64_t kMostBytes = 16 << 10;
/// Products of one matrix: of more of them others make as much, or more, of the machine.
constexpr double kMostProducts = 3e5;
/// Any number of rows by so small a matrix, whose rows fill half a vector, goes as fast.
constexpr std::int64_t kAnyRowsBytes = 4 << 10, kAnyRowsLine = 32;
/// And so do narrower ones, of lines that are less than a vector to sum along.
constexpr std::int64_t kShortLine = 64;

/// Of a line at most.
constexpr int kVectorsOfLine = 8;

/// Complex numbers are pairs of real ones in memory.
template <class T>
struct Parts {
  using Real = T;
  static constexpr int kCount = 1;
};
template <class T>
struct Parts<std::complex<T>> {
  using Real = T;
  static constexpr int kCount = 2;
};
/// The same product, strides and columns counted in real numbers.
template <class T>
SmallGemm<typename Parts<T>::Real> in_parts(const SmallGemm<T>& g) {
  using Real = typename Parts<T>::Real;
  constexpr std::int64_t kParts = Parts<T>::kCount;
  SmallGemm<Real> out;
  out.count = g.count;
  out.m = g.m;
  out.n = kParts * g.n;
  out.k = g.k;
  out.a = reinterpret_cast<const Real*>(g.a);
  out.a_matrix = kParts * g.a_matrix;
  out.a_row = kParts * g.a_row;
  out.a_column = kParts * g.a_column;
  out.b = reinterpret_cast<const Real*>(g.b);
  out.b_matrix = kParts * g.b_matrix;
  out.b_row = kParts * g.b_row;
  out.b_column = kParts * g.b_column;
  out.b_end = reinterpret_cast<const Real*>(g.b_end);
  out.c = reinterpret_cast<Real*>(g.c);
  out.c_matrix = kParts * g.c_matrix;
  out.c_row = kParts * g.c_row;
  return out;
}

/// A tile's operands. Vectors are written whole up to `whole_end`: what is behind is written later.
template <class T>
struct TileJob {
  const T *a, *b;
  std::int64_t k, a_row, a_column, b_row;
  T* c;
  std::int64_t c_row, columns;
  const T* whole_end;
};

/// Of elements of so many parts.
template <class T, int bytes, int parts>
struct SmallTiles {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  /// Sums take most of the registers, of which AVX-512 has twice as many.
  static constexpr int most_rows(int vectors, bool many_registers) {
    const int rows = many_registers ? (vectors <= 3 ? 8 : 6)
                                    : (vectors == 1   ? 8
                                       : vectors == 2 ? 5
                                                      : 3);
    return parts == 1 ? rows : vectors == 1 ? (many_registers ? 8 : 4) : (rows + 1) / 2;
  }

  /// i times complex numbers.
  template <std::size_t... l>
  static TESSERA_INLINE V turned(V x, std::index_sequence<l...>) {
    const V sign = {(l % 2 == 0 ? T(-1) : T(1))...};
    return sign * __builtin_shufflevector(x, x, int(l ^ 1)...);
  }

  template <int rows, int vectors>
  static TESSERA_INLINE void tile(const TileJob<T>& t) {
    // By real parts of a, and by imaginary ones.
    V sum[rows][vectors] = {}, imaginary[parts == 2 ? rows : 1][parts == 2 ? vectors : 1] = {};
    const T *a = t.a, *b = t.b;
    for (std::int64_t k = 0; k < t.k; ++k, a += t.a_column, b += t.b_row) {
      V of_b[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) of_b[v] = Simd::load(b + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const T x = a[r * t.a_row];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
        if constexpr (parts == 2) {
          const T y = a[r * t.a_row + 1];
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) imaginary[r][v] += y * of_b[v];
        }
      }
    }
    if constexpr (parts == 2) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          sum[r][v] += turned(imaginary[r][v], typename Simd::Lanes());
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T* const row = t.c + r * t.c_row;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        T* const to = row + v * kLanes;
        const std::int64_t left = t.columns - v * kLanes;
        if (left >= kLanes || to + kLanes <= t.whole_end) {
          Simd::store(to, sum[r][v]);
        } else {
          T part[kLanes];
          Simd::store(part, sum[r][v]);
          for (std::int64_t n = 0; n < left; ++n) to[n] = part[n];
        }
      }
    }
  }

  /// All rows: of the highest tiles, then of those that are left.
  template <int vectors, bool many_registers>
  static TESSERA_INLINE void rows(TileJob<T> t, std::int64_t m) {
    constexpr int kMost = most_rows(vectors, many_registers);
    for (; m >= kMost; m -= kMost) tile_and_next<kMost, vectors>(&t);
    if (kMost > 4 && m >= 4) {
      tile_and_next<4, vectors>(&t);
      m -= 4;
    }
    if (m >= 2) tile_and_next<2, vectors>(&t);
    if (m % 2 == 1) tile<1, vectors>(t);
  }
  template <int rows, int vectors>
  static TESSERA_INLINE void tile_and_next(TileJob<T>* t) {
    tile<rows, vectors>(*t);
    t->a += rows * t->a_row;
    t->c += rows * t->c_row;
  }

  /// Columns of b from `b` on as rows of whole vectors.
  static TESSERA_INLINE void pack(const SmallGemm<T>& g, const T* b, std::int64_t columns,
                                  std::int64_t width, T* to) {
    std::int64_t n = 0;
    if (parts == 1 && g.b_row == 1 && g.b_column != 1 &&
        b + (columns - 1) * g.b_column + (g.k + kLanes - 1) / kLanes * kLanes <= g.b_end) {
      for (; n < columns; n += kLanes) {
        for (std::int64_t k = 0; k < g.k; k += kLanes) {
          V square[kLanes];
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) {
            square[i] = Simd::load(b + std::min(n + i, columns - 1) * g.b_column + k);
          }
          Simd::transpose(square);
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) Simd::store(to + (k + i) * width + n, square[i]);
        }
      }
      return;
    }
    for (std::int64_t k = 0; k < g.k; ++k) {
      for (n = 0; n < columns; n += parts) {
        for (int p = 0; p < parts; ++p) {
          to[k * width + n + p] = b[k * g.b_row + n / parts * g.b_column + p];
        }
      }
    }
  }

  /// Strips of so many vectors, one after the other.
  template <int vectors, bool many_registers>
  static TESSERA_INLINE void run(const SmallGemm<T>& g, T* packed) {
    constexpr std::int64_t kWidth = vectors * kLanes;
    const bool one_strip = g.n <= kWidth;
    // All of c is written row by row then.
    const bool ascending = one_strip && g.c_row == g.n && (g.count == 1 || g.c_matrix == g.m * g.n);
    const T* const whole_end = ascending ? g.c + (g.count - 1) * g.c_matrix + g.m * g.n : nullptr;
    for (std::int64_t i = 0; i < g.count; ++i) {
      const T* const matrix = g.b + i * g.b_matrix;
      for (std::int64_t n = 0; n < g.n; n += kWidth) {
        TileJob<T> t;
        t.columns = std::min(kWidth, g.n - n);
        t.b = matrix + n / parts * g.b_column;
        t.b_row = g.b_row;
        if (g.b_column != parts || t.b + (g.k - 1) * g.b_row + kWidth > g.b_end) {
          // One that all share needs it once.
          if (i == 0 || g.b_matrix != 0 || !one_strip) pack(g, t.b, t.columns, kWidth, packed);
          t.b = packed;
          t.b_row = kWidth;
        }
        t.a = g.a + i * g.a_matrix;
        t.k = g.k;
        t.a_row = g.a_row;
        t.a_column = g.a_column;
        t.c = g.c + i * g.c_matrix + n;
        t.c_row = g.c_row;
        t.whole_end = whole_end;
        rows<vectors, many_registers>(t, g.m);
      }
    }
  }
};

template <class T>
struct GemmCall {
  SmallGemm<typename Parts<T>::Real> job;
  typename Parts<T>::Real* packed;
};
/// The narrowest vectors that a row of c fits into, or strips of the widest.
template <class T, int bytes>
TESSERA_INLINE void run_gemm(const GemmCall<T>& call) {
  using Real = typename Parts<T>::Real;
  constexpr int kParts = Parts<T>::kCount;
  const SmallGemm<Real>& g = call.job;
  constexpr bool kMany = bytes == 64;
  const std::int64_t row = g.n * std::int64_t(sizeof(Real));
  if (row <= 16) return SmallTiles<Real, 16, kParts>::template run<1, kMany>(g, call.packed);
  if constexpr (bytes > 32) {
    if (row <= 32) return SmallTiles<Real, 32, kParts>::template run<1, kMany>(g, call.packed);
  }
  using Widest = SmallTiles<Real, bytes, kParts>;
  const std::int64_t vectors = (row + bytes - 1) / bytes;
  // Strips of nearly the same width.
  constexpr std::int64_t kMost = 4 / kParts;
  const std::int64_t most = (vectors + kMost - 1) / kMost, each = (vectors + most - 1) / most;
  if (each == 1) return Widest::template run<1, kMany>(g, call.packed);
  if constexpr (kMost > 2) {
    if (each == 3) return Widest::template run<3, kMany>(g, call.packed);
    if (each == 4) return Widest::template run<4, kMany>(g, call.packed);
  }
  Widest::template run<2, kMany>(g, call.packed);
}
TESSERA_VERSIONS(gemm_version, run_gemm, GemmCall<T>)

template <class T, int bytes>
struct Lines {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Mask = typename Vectors<Bits, bytes>::V;
  static constexpr int kTogether = 4;

  /// The lanes of the last vector of a line.
  static TESSERA_INLINE Mask last_lanes(std::int64_t k) {
    const std::int64_t lanes = (k - 1) % kLanes + 1;
    Bits mask[kLanes];
    for (int i = 0; i < kLanes; ++i) mask[i] = i < lanes ? Bits(-1) : Bits(0);
    return Vectors<Bits, bytes>::load(mask);
  }
  /// A vector of a line, `left` of which are its own.
  static TESSERA_INLINE V load(const T* from, std::int64_t left, const T* end, Mask mask) {
    if (left > kLanes) return Simd::load(from);
    if (left <= 0) return V{};
    if (from + kLanes <= end) return V(Mask(Simd::load(from)) & mask);
    T part[kLanes] = {};
    for (std::int64_t i = 0; i < left; ++i) part[i] = from[i];
    return Simd::load(part);
  }

  template <int vectors>
  static TESSERA_INLINE void run(const SmallLines<T>& g) {
    const Mask mask = last_lanes(g.k);
    std::int64_t matrix = g.begin / g.of_each;
    for (std::int64_t r = g.begin; r < g.end; ++matrix) {
      const std::int64_t end = std::min(g.end, (matrix + 1) * g.of_each);
      V x[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        x[v] = load(g.x + matrix * g.k + v * kLanes, g.k - v * kLanes, g.x_end, mask);
      }
      for (; r < end; r += kTogether) {
        const std::int64_t rows = std::min<std::int64_t>(kTogether, end - r);
        V sum[kTogether];
#pragma GCC unroll 4
        for (int i = 0; i < kTogether; ++i) {
          const T* const line = g.lines + (r + std::min<std::int64_t>(i, rows - 1)) * g.k;
          sum[i] = V{};
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) {
            sum[i] += load(line + v * kLanes, g.k - v * kLanes, g.lines_end, mask) * x[v];
          }
        }
        T total[kTogether];
        Simd::sums(sum, total);
        if (rows == kTogether) {
          std::memcpy(g.y + r, total, sizeof total);
        } else {
          for (std::int64_t i = 0; i < rows; ++i) g.y[r + i] = total[i];
        }
      }
      r = end;
    }
  }
  static TESSERA_INLINE void run_by_length(const SmallLines<T>& g) {
    const std::int64_t vectors = (g.k + kLanes - 1) / kLanes;
    if (vectors == 1) return run<1>(g);
    if (vectors == 2) return run<2>(g);
    if (vectors <= 4) return run<4>(g);
    run<kVectorsOfLine>(g);
  }
};

/// The narrowest vectors that a line fits into, or several of the widest.
template <class T, int bytes>
TESSERA_INLINE void run_lines(const SmallLines<T>& g) {
  const std::int64_t line = g.k * std::int64_t(sizeof(T));
  if (line <= 16) return Lines<T, 16>::run_by_length(g);
  if constexpr (bytes > 32) {
    if (line <= 32) return Lines<T, 32>::run_by_length(g);
  }
  Lines<T, bytes>::run_by_length(g);
}
TESSERA_VERSIONS(lines_version, run_lines, SmallLines<T>)

}  // namespace

template <class T>
void small_gemm(const SmallGemm<T>& job) {
  using Real = typename Parts<T>::Real;
  // Columns that are packed fill vectors, and squares of them.
  constexpr std::int64_t kWidest = 4 * 64 / std::int64_t(sizeof(Real));
  constexpr std::int64_t kLanes = 64 / std::int64_t(sizeof(Real));
  const std::int64_t depth = (job.k + kLanes - 1) / kLanes * kLanes;
  const ScratchMemory packed(std::size_t(depth * kWidest) * sizeof(Real));
  gemm_version<T>()({in_parts(job), reinterpret_cast<Real*>(packed.data())});
}
template void small_gemm(const SmallGemm<float>&);
template void small_gemm(const SmallGemm<double>&);
template void small_gemm(const SmallGemm<std::complex<float>>&);
template void small_gemm(const SmallGemm<std::complex<double>>&);

template <class T>
void small_lines(const SmallLines<T>& job) {
  lines_version<T>()(job);
}
template void small_lines(const SmallLines<float>&);
template void small_lines(const SmallLines<double>&);

bool small_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t element_bytes) {
  const std::int64_t bytes = n * k * element_bytes;
  return bytes <= kMostBytes && (double(m) * double(n) * double(k) <= kMostProducts ||
                                 (bytes <= kAnyRowsBytes && (n * element_bytes >= kAnyRowsLine ||
                                                             k * element_bytes <= kShortLine)));
}
bool small_lines_pay(std::int64_t k, std::int64_t element_bytes) {
  return k * element_bytes <= kVectorsOfLine * version_for_machine(16, 32, 32);
}

}  // namespace tessera::codegen
