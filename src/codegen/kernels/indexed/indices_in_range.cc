// SPDX-License-Identifier: Apache-2.0
// Lists of the places of indices in a range, sixteen at once where the machine can.
#include "src/codegen/kernels/indexed/indices_in_range.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {
namespace {

template <class Index>
std::uint32_t one_by_one(const Index* at, std::int64_t step, std::uint32_t begin,
                         std::uint32_t count, std::int64_t first, std::int64_t last,
                         std::uint32_t found, std::uint32_t* places) {
  for (std::uint32_t k = begin; k < count; ++k) {
    places[found] = k;
    // Wraps for what is below.
    const auto index = std::uint64_t(std::int64_t(at[std::int64_t(k) * step]));
    const std::uint64_t past_first = index - std::uint64_t(first);
    found += std::uint32_t(past_first < std::uint64_t(last - first));
  }
  return found;
}

template <class Index>
std::uint32_t any_step(const Index* at, std::int64_t step, std::uint32_t count, std::int64_t first,
                       std::int64_t last, std::uint32_t* places) {
  return one_by_one(at, step, 0, count, first, last, 0, places);
}

#if defined(__x86_64__)
/// Compressed in a register, as some processors take long to store compressed lanes.
template <class Index>
TESSERA_FOR_AVX512 std::uint32_t in_a_row(const Index* at, std::int64_t, std::uint32_t count,
                                          std::int64_t first, std::int64_t last,
                                          std::uint32_t* places) {
  constexpr std::uint32_t kLanes = 64 / sizeof(Index);
  if constexpr (std::is_same_v<Index, std::int32_t>) {
    constexpr std::int64_t kBeyond = std::int64_t(1) << 31;  // what no index is
    if (first >= kBeyond) return 0;
    last = std::min(last, kBeyond);
  }
  std::uint32_t found = 0, k = 0;
  __m512i place = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i further = _mm512_set1_epi32(int(kLanes));
  for (; k + kLanes <= count; k += kLanes) {
    const __m512i index = _mm512_loadu_si512(at + k);
    __mmask16 in = 0;
    if constexpr (std::is_same_v<Index, std::int32_t>) {
      const __m512i past = _mm512_sub_epi32(index, _mm512_set1_epi32(int(first)));
      in = _mm512_cmplt_epu32_mask(past, _mm512_set1_epi32(int(last - first)));
    } else {
      const __m512i past = _mm512_sub_epi64(index, _mm512_set1_epi64(first));
      in = _mm512_cmplt_epu64_mask(past, _mm512_set1_epi64(last - first));
    }
    _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi32(in, place));
    found += std::uint32_t(__builtin_popcount(in));
    place = _mm512_add_epi32(place, further);
  }
  return one_by_one(at, 1, k, count, first, last, found, places);
}
#endif

bool has_vectors(std::int64_t step) {
#if defined(__x86_64__)
  return step == 1 && instruction_set() == InstructionSet::avx512;
#else
  static_cast<void>(step);
  return false;
#endif
}

}  // namespace

template <class Index>
IndicesInRange<Index> indices_in_range(std::int64_t step) {
#if defined(__x86_64__)
  if (has_vectors(step)) return in_a_row<Index>;
#endif
  return any_step<Index>;
}
template IndicesInRange<std::int32_t> indices_in_range<std::int32_t>(std::int64_t step);
template IndicesInRange<std::int64_t> indices_in_range<std::int64_t>(std::int64_t step);

bool lists_places_fast(std::int64_t step) { return has_vectors(step); }

}  // namespace tessera::codegen
