// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/products/matrix_vector.h"

#include <algorithm>
#include <cstring>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/transpose.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Rows of the matrix, or lines of it, that are read side by side.
constexpr int kRows = 4, kLines = 8;

template <class T>
struct Job : MatrixVectors<T> {};

/// What is left from k on of rows by a vector.
template <class T, int rows>
TESSERA_INLINE void add_rest(const Job<T>& a, const T* const* row, const T* x, std::int64_t k,
                             T* total) {
  for (int r = 0; r < rows; ++r) {
    for (std::int64_t p = k; p < a.depth; ++p) total[r] += row[r][p] * x[p];
  }
}
/// Rows [i, i + rows) by all vectors, each of which is contiguous: sums of each lane first.
template <class T, int bytes, int rows, int vectors>
TESSERA_INLINE void dot_rows(const Job<T>& a, std::int64_t i) {
  using W = Vectors<T, bytes>;
  const T* row[rows];
  for (int r = 0; r < rows; ++r) row[r] = a.matrix + (i + r) * a.line;
  typename W::V sum[rows][vectors][2] = {};
  std::int64_t k = 0;
  for (; k + 2 * W::kLanes <= a.depth; k += 2 * W::kLanes) {
    for (int half = 0; half < 2; ++half) {
      typename W::V x[vectors];
      for (int v = 0; v < vectors; ++v) x[v] = W::load(a.x + v * a.x_vector + k + half * W::kLanes);
      for (int r = 0; r < rows; ++r) {
        const typename W::V m = W::load(row[r] + k + half * W::kLanes);
        for (int v = 0; v < vectors; ++v) sum[r][v][half] += m * x[v];
      }
    }
  }
  // Of short rows this takes as long as all before: sums are to stay in registers.
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    typename W::V lanes[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) lanes[r] = sum[r][v][0] + sum[r][v][1];
    T total[rows];
    if constexpr (rows == 4) {
      W::sums(lanes, total);
    } else {
      for (int r = 0; r < rows; ++r) total[r] = W::sum(lanes[r]);
    }
    if (k < a.depth) add_rest<T, rows>(a, row, a.x + v * a.x_vector, k, total);
    T* const y = a.y + v * a.y_vector + i * a.y_row;
    if (a.y_row == 1) {
      std::memcpy(y, total, sizeof total);
      continue;
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) y[r * a.y_row] = total[r];
  }
}
template <class T, int bytes, int vectors>
TESSERA_INLINE void by_rows(const Job<T>& a) {
  std::int64_t i = 0;
  for (; i + kRows <= a.rows; i += kRows) dot_rows<T, bytes, kRows, vectors>(a, i);
  for (; i < a.rows; ++i) dot_rows<T, bytes, 1, vectors>(a, i);
}

/// Adds `lines` lines from k on, times the vectors' elements there, to the sums of all rows.
template <class T, int bytes, int lines, int vectors>
TESSERA_INLINE void add_lines(const Job<T>& a, std::int64_t k) {
  using W = Vectors<T, bytes>;
  const T* line = a.matrix + k * a.line;
  T x[lines][vectors];
  for (int l = 0; l < lines; ++l) {
    for (int v = 0; v < vectors; ++v) x[l][v] = a.x[v * a.x_vector + k + l];
  }
  std::int64_t i = 0;
  for (; i + W::kLanes <= a.rows; i += W::kLanes) {
    typename W::V sum[vectors];
    for (int v = 0; v < vectors; ++v) {
      sum[v] = k == 0 ? typename W::V{} : W::load(a.y + v * a.y_vector + i);
    }
    for (int l = 0; l < lines; ++l) {
      const typename W::V m = W::load(line + l * a.line + i);
      for (int v = 0; v < vectors; ++v) sum[v] += m * x[l][v];
    }
    for (int v = 0; v < vectors; ++v) W::store(a.y + v * a.y_vector + i, sum[v]);
  }
  for (; i < a.rows; ++i) {
    for (int v = 0; v < vectors; ++v) {
      T sum = k == 0 ? T(0) : a.y[v * a.y_vector + i];
      for (int l = 0; l < lines; ++l) sum += line[l * a.line + i] * x[l][v];
      a.y[v * a.y_vector + i] = sum;
    }
  }
}
template <class T, int bytes, int vectors>
TESSERA_INLINE void by_columns(const Job<T>& a) {
  std::int64_t k = 0;
  for (; k + kLines <= a.depth; k += kLines) add_lines<T, bytes, kLines, vectors>(a, k);
  if (k + 4 <= a.depth) {
    add_lines<T, bytes, 4, vectors>(a, k);
    k += 4;
  }
  if (k + 2 <= a.depth) {
    add_lines<T, bytes, 2, vectors>(a, k);
    k += 2;
  }
  if (k < a.depth) add_lines<T, bytes, 1, vectors>(a, k);
}

template <class T, int bytes>
TESSERA_INLINE void by_vectors(const Job<T>& job) {
  const Job<T> a = job;  // in registers, which what is written doesn't alias
  switch (a.vectors) {
    case 1:
      return a.by_columns ? by_columns<T, bytes, 1>(a) : by_rows<T, bytes, 1>(a);
    case 2:
      return a.by_columns ? by_columns<T, bytes, 2>(a) : by_rows<T, bytes, 2>(a);
    case 3:
      return a.by_columns ? by_columns<T, bytes, 3>(a) : by_rows<T, bytes, 3>(a);
    default:
      return a.by_columns ? by_columns<T, bytes, 4>(a) : by_rows<T, bytes, 4>(a);
  }
}
TESSERA_VERSIONS(multiply, by_vectors, Job<T>)

}  // namespace

template <class T>
void multiply(const MatrixVectors<T>& given) {
  constexpr auto kElement = std::int64_t(sizeof(T));
  // Rows of fewer bytes are put in columns, some at a time: sums along them would leave most of a
  // vector empty.
  constexpr std::int64_t kShortRow = 64, kEnoughRows = 64;
  Job<T> job{given};
  const auto version = multiply<T>();
  std::int64_t scratch = 0;
  const bool turns = !job.by_columns && job.depth > 1 && job.depth * kElement <= kShortRow &&
                     job.rows >= kEnoughRows;
  job.by_columns |= turns;
  const bool packs_x = job.x_depth != 1 && job.depth > 1;
  // Sums of columns are read and written all the time.
  constexpr std::int64_t kBlock = 4096;
  const std::int64_t block = std::min(kBlock, job.rows);
  const bool packs_y = job.by_columns && job.y_row != 1 && job.rows > 1;
  if (packs_x) scratch += job.depth * job.vectors;
  if (packs_y) scratch += block * job.vectors;
  if (turns) scratch += block * job.depth;
  const ScratchMemory memory(std::size_t(scratch * kElement));
  T* free = reinterpret_cast<T*>(memory.data());
  if (packs_x) {
    for (std::int64_t v = 0; v < job.vectors; ++v) {
      for (std::int64_t k = 0; k < job.depth; ++k) {
        free[v * job.depth + k] = given.x[v * given.x_vector + k * given.x_depth];
      }
    }
    job.x = free;
    job.x_vector = job.depth;
    free += job.depth * job.vectors;
  }
  if (!job.by_columns) return version(job);
  T* const columns = packs_y ? free + block * job.vectors : free;
  for (std::int64_t i = 0; i < given.rows; i += kBlock) {
    job.rows = std::min(kBlock, given.rows - i);
    job.matrix = given.matrix + i;
    if (turns) {
      const T* const rows = given.matrix + i * given.line;
      transpose({reinterpret_cast<std::byte*>(columns), reinterpret_cast<const std::byte*>(rows),
                 job.depth, job.rows, job.rows * kElement, given.line * kElement},
                sizeof(T));
      job.matrix = columns;
      job.line = job.rows;
    }
    T* const y = given.y + i * given.y_row;
    job.y = packs_y ? free : y;
    job.y_vector = packs_y ? job.rows : given.y_vector;
    version(job);
    if (!packs_y) continue;
    for (std::int64_t v = 0; v < job.vectors; ++v) {
      for (std::int64_t r = 0; r < job.rows; ++r) {
        y[v * given.y_vector + r * given.y_row] = free[v * job.rows + r];
      }
    }
  }
}

template void multiply(const MatrixVectors<float>&);
template void multiply(const MatrixVectors<double>&);

}  // namespace tessera::codegen
