// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Tiles of c stay in registers while the terms go by.
#include "src/codegen/kernels/batch_gemm.h"

#include <algorithm>
#include <cstddef>

#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Of the part of b that all rows go through, which the second cache should hold.
constexpr std::int64_t kBlockBytes = 256 << 10;

/// Terms of a block, whose columns [column, ...) of b are at `b + column` or, if `packed`, one
/// vector wide, one term after the other.
template <class T>
struct BlockJob {
  const BatchGemm<T>* all;
  const typename BatchGemm<T>::Term* terms;
  std::int64_t count;
  bool accumulate;
  T* packed;  ///< room for the last columns, if n is no multiple of the vector
};

template <class T, int bytes>
struct Tiles {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kVectors = bytes == 64 ? 4 : 2;  ///< of the columns of a tile

  template <int rows, int vectors>
  static TESSERA_INLINE void tile(const BlockJob<T>& job, std::int64_t row, std::int64_t column,
                                  const T* packed) {
    const BatchGemm<T>& g = *job.all;
    V sum[rows][vectors] = {};
    for (std::int64_t t = 0; t < job.count; ++t) {
      const auto& term = job.terms[t];
      const T* a = term.a + row * g.a_row;
      const T* b = packed != nullptr ? packed : term.b + column;
      const std::int64_t b_row = packed != nullptr ? kLanes : g.b_row;
      for (std::int64_t k = 0; k < term.k; ++k, a += g.a_column, b += b_row) {
        V of_b[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) of_b[v] = Simd::load(b + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          const V x = Simd::splat(a[r * g.a_row]);
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) sum[r][v] += x * of_b[v];
        }
      }
      if (packed != nullptr) packed = b;
    }
    T* c = g.c + row * g.c_row + column;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r, c += g.c_row) {
      if (packed != nullptr) {
        T part[kLanes];
        Simd::store(part, sum[r][0]);
        for (std::int64_t n = 0; n < g.n - column; ++n)
          c[n] = job.accumulate ? c[n] + part[n] : part[n];
        continue;
      }
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        T* to = c + v * kLanes;
        Simd::store(to, job.accumulate ? Simd::load(to) + sum[r][v] : sum[r][v]);
      }
    }
  }

  template <int vectors>
  static TESSERA_INLINE void rows(const BlockJob<T>& job, std::int64_t column, const T* packed) {
    const std::int64_t m = job.all->m;
    std::int64_t row = 0;
    for (; row + 6 <= m; row += 6) tile<6, vectors>(job, row, column, packed);
    switch (m - row) {
      case 5:
        return tile<5, vectors>(job, row, column, packed);
      case 4:
        return tile<4, vectors>(job, row, column, packed);
      case 3:
        return tile<3, vectors>(job, row, column, packed);
      case 2:
        return tile<2, vectors>(job, row, column, packed);
      case 1:
        return tile<1, vectors>(job, row, column, packed);
      default:
        return;
    }
  }
};
static_assert(kBatchGemmRows == 6);

template <class T, int bytes>
TESSERA_INLINE void run_block(const BlockJob<T>& job) {
  using Tile = Tiles<T, bytes>;
  const BatchGemm<T>& g = *job.all;
  std::int64_t column = 0;
  for (; column + Tile::kVectors * Tile::kLanes <= g.n; column += Tile::kVectors * Tile::kLanes) {
    Tile::template rows<Tile::kVectors>(job, column, nullptr);
  }
  if constexpr (Tile::kVectors > 2) {
    if (column + 2 * Tile::kLanes <= g.n) {
      Tile::template rows<2>(job, column, nullptr);
      column += 2 * Tile::kLanes;
    }
  }
  if (column + Tile::kLanes <= g.n) {
    Tile::template rows<1>(job, column, nullptr);
    column += Tile::kLanes;
  }
  if (column == g.n) return;
  T* to = job.packed;
  for (std::int64_t t = 0; t < job.count; ++t) {
    const T* from = job.terms[t].b + column;
    for (std::int64_t k = 0; k < job.terms[t].k; ++k, from += g.b_row, to += Tile::kLanes) {
      for (int v = 0; v < Tile::kLanes; ++v) to[v] = v < g.n - column ? from[v] : T(0);
    }
  }
  Tile::template rows<1>(job, column, job.packed);
}
TESSERA_VERSIONS(block_version, run_block, BlockJob<T>)

}  // namespace

template <class T>
std::int64_t batch_gemm_lanes() {
  return version_for_machine(16, 32, 64) / std::int64_t(sizeof(T));
}

template <class T>
void batch_gemm(const BatchGemm<T>& job) {
  using Term = typename BatchGemm<T>::Term;
  const auto block = block_version<T>();
  const std::int64_t lanes = batch_gemm_lanes<T>();
  const std::int64_t depth = std::clamp<std::int64_t>(
      kBlockBytes / (std::int64_t(sizeof(T)) * std::max<std::int64_t>(job.n, 1)), 64, 4096);
  const ScratchMemory memory(job.n % lanes == 0 ? 0 : std::size_t(depth * lanes) * sizeof(T));
  std::vector<Term> some;
  bool accumulate = job.accumulate;
  std::int64_t in_block = 0;
  const auto flush = [&] {
    block({&job, some.data(), std::int64_t(some.size()), accumulate,
           reinterpret_cast<T*>(memory.data())});
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

template void batch_gemm(const BatchGemm<float>&);
template void batch_gemm(const BatchGemm<double>&);
template std::int64_t batch_gemm_lanes<float>();
template std::int64_t batch_gemm_lanes<double>();

}  // namespace tessera::codegen
