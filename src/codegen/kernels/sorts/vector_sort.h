// SPDX-License-Identifier: Apache-2.0
// Sorts integers by vectors: quicksort whose partitions are permutations of vectors, down to few
// numbers, which a network sorts (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using
// AVX-512, 2017; Wassenberg et al., Vectorized and performance-portable Quicksort, 2022).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::codegen {

/// More room than numbers that vector_sort needs.
inline constexpr std::size_t kSortRoom = 8;

/// Sorts n numbers, of 4 or 8 bytes; `scratch` has room for kSortRoom more. Equal numbers are the
/// same, so that there is no order of theirs to be kept.
template <class T>
void vector_sort(T* numbers, std::size_t n, T* scratch);

}  // namespace tessera::codegen
