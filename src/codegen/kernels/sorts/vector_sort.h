// SPDX-License-Identifier: Apache-2.0
// Sorts integers by vectors: quicksort whose partitions are permutations of vectors, down to few
// numbers, which a network sorts (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using
// AVX-512, 2017; Wassenberg et al., Vectorized and performance-portable Quicksort, 2022).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::codegen {

/// Places in the order of a row, from `begin` to before `end`: those that are read.
struct SortedPart {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  /// What of it lies among the first n places.
  SortedPart within(std::size_t n) const { return {std::min(begin, n), std::min(end, n)}; }
};

/// Sorts n numbers, of 4 or 8 bytes, as far as the part wants it: what lies outside of it is in no
/// order. Equal numbers are the same, so that there is no order of theirs to be kept.
template <class T>
void vector_sort(T* numbers, std::size_t n, SortedPart part);

}  // namespace tessera::codegen
