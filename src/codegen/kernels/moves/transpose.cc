// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/moves/transpose.h"

#include <algorithm>
#include <cstring>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

template <class Element>
struct Job : Plane {};

template <class T>
TESSERA_INLINE void one_by_one(const Job<T>& p, std::int64_t r0, std::int64_t r1, std::int64_t c0,
                               std::int64_t c1) {
  constexpr auto kBytes = std::int64_t(sizeof(T));
  for (std::int64_t r = r0; r < r1; ++r) {
    for (std::int64_t c = c0; c < c1; ++c) {
      std::memcpy(p.to + r * p.to_row + c * kBytes, p.from + r * kBytes + c * p.from_column,
                  sizeof(T));
    }
  }
}

/// A square whose sides are a vector: each line of memory on both sides is touched once, so that it
/// doesn't matter whether lines that are far apart push each other out of the cache.
template <class T, int bytes>
TESSERA_INLINE void square(const Job<T>& p, std::int64_t r, std::int64_t c) {
  using W = Vectors<T, bytes>;
  constexpr auto kBytes = std::int64_t(sizeof(T));
  typename W::V lines[W::kLanes];
  for (int i = 0; i < W::kLanes; ++i) {
    lines[i] = W::load(reinterpret_cast<const T*>(p.from + r * kBytes + (c + i) * p.from_column));
  }
  W::transpose(lines);
  for (int i = 0; i < W::kLanes; ++i) {
    W::store(reinterpret_cast<T*>(p.to + (r + i) * p.to_row + c * kBytes), lines[i]);
  }
}

/// What is left beside the squares is done by smaller ones.
template <class T, int bytes>
TESSERA_INLINE void part_by_squares(const Job<T>& p, std::int64_t r_begin, std::int64_t r_end,
                                    std::int64_t c_begin, std::int64_t c_end) {
  // Tiles, so that the pages of both sides stay known.
  constexpr std::int64_t kTile = 64, kLanes = Vectors<T, bytes>::kLanes;
  const std::int64_t rows = r_begin + (r_end - r_begin) / kLanes * kLanes;
  const std::int64_t columns = c_begin + (c_end - c_begin) / kLanes * kLanes;
  for (std::int64_t r0 = r_begin; r0 < rows; r0 += kTile) {
    const std::int64_t r1 = std::min(r0 + kTile, rows);
    for (std::int64_t c0 = c_begin; c0 < columns; c0 += kTile) {
      const std::int64_t c1 = std::min(c0 + kTile, columns);
      for (std::int64_t r = r0; r < r1; r += kLanes) {
        for (std::int64_t c = c0; c < c1; c += kLanes) square<T, bytes>(p, r, c);
      }
    }
  }
  if constexpr (bytes > 16) {
    if (columns < c_end) part_by_squares<T, bytes / 2>(p, r_begin, rows, columns, c_end);
    if (rows < r_end) part_by_squares<T, bytes / 2>(p, rows, r_end, c_begin, c_end);
  } else {
    one_by_one(p, r_begin, rows, columns, c_end);
    one_by_one(p, rows, r_end, c_begin, c_end);
  }
}

template <class T, int bytes>
TESSERA_INLINE void by_squares(const Job<T>& p) {
  part_by_squares<T, bytes>(p, 0, p.rows, 0, p.columns);
}
TESSERA_VERSIONS(version, by_squares, Job<T>)

template <class Element>
struct Turn : ReversedRow {};

template <class T, int bytes>
TESSERA_INLINE void by_vectors(const Turn<T>& row) {
  using W = Vectors<T, bytes>;
  T* to = reinterpret_cast<T*>(row.to);
  const T* from = reinterpret_cast<const T*>(row.from);
  std::int64_t c = 0;
  for (; c + W::kLanes <= row.count; c += W::kLanes) {
    W::store(to + c, W::reversed(W::load(from - c - (W::kLanes - 1))));
  }
  for (; c < row.count; ++c) to[c] = from[-c];
}
TESSERA_VERSIONS(turned_version, by_vectors, Turn<T>)

}  // namespace

bool transpose(const Plane& plane, std::size_t element_bytes) {
  return for_size(kUnsigned, element_bytes, [&](auto tag) {
    version<typename decltype(tag)::type>()({plane});
    return true;
  });
}

bool reverse_row(const ReversedRow& row, std::size_t element_bytes) {
  return for_size(kUnsigned, element_bytes, [&](auto tag) {
    turned_version<typename decltype(tag)::type>()({row});
    return true;
  });
}

}  // namespace tessera::codegen
