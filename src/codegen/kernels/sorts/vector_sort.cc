// SPDX-License-Identifier: Apache-2.0
// Compiled alone: functions for several instruction sets.
#include "src/codegen/kernels/sorts/vector_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "src/codegen/kernels/vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::codegen {

#if defined(__x86_64__)
namespace {

#define TESSERA_FOR_SORTS __attribute__((target("avx2,popcnt")))

/// So many numbers are sorted at once, in registers.
constexpr std::size_t kFew = 64;
constexpr int kBytes = 32;

/// Networks on vectors: of columns, then merges of sorted runs.
template <class T>
struct Network {
  using Simd = Vectors<T, kBytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kCount = int(kFew) / kLanes;  ///< vectors
  using Lanes = std::make_index_sequence<std::size_t(kLanes)>;

  static TESSERA_INLINE V least(V a, V b) { return a < b ? a : b; }
  static TESSERA_INLINE V most(V a, V b) { return a < b ? b : a; }
  static TESSERA_INLINE void order(V& a, V& b) {
    const V low = least(a, b);
    b = most(a, b);
    a = low;
  }

  /// Each column of so many vectors as a vector has lanes.
  static TESSERA_INLINE void sort_columns(V* v) {
    if constexpr (kLanes == 8) {
      constexpr int kPairs[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                   {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                   {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
#pragma GCC unroll 32
      for (int i = 0; i < 19; ++i) order(v[kPairs[i][0]], v[kPairs[i][1]]);
    } else {
      static_assert(kLanes == 4);
      order(v[0], v[2]);
      order(v[1], v[3]);
      order(v[0], v[1]);
      order(v[2], v[3]);
      order(v[1], v[2]);
    }
  }

  template <int distance, std::size_t... i>
  static TESSERA_INLINE V step(V v, std::index_sequence<i...>) {
    const V other = __builtin_shufflevector(v, v, (int(i) ^ distance)...);
    return __builtin_shufflevector(least(v, other), most(v, other),
                                   ((int(i) & distance) == 0 ? int(i) : int(i) + kLanes)...);
  }
  /// A vector that goes up and then down, or down and up.
  static TESSERA_INLINE V sort_bitonic(V v) {
    if constexpr (kLanes > 4) v = step<4>(v, Lanes());
    return step<1>(step<2>(v, Lanes()), Lanes());
  }

  /// Two sorted runs of so many vectors, one after the other.
  template <int run>
  static TESSERA_INLINE void merge(V* v) {
    V high[run];
#pragma GCC unroll 16
    for (int i = 0; i < run; ++i) high[i] = Simd::reversed(v[2 * run - 1 - i]);
#pragma GCC unroll 16
    for (int i = 0; i < run; ++i) order(v[i], high[i]);
#pragma GCC unroll 16
    for (int i = 0; i < run; ++i) v[run + i] = high[i];
    if constexpr (run > 4) across<4>(v, 2 * run);
    if constexpr (run > 2) across<2>(v, 2 * run);
    if constexpr (run > 1) across<1>(v, 2 * run);
#pragma GCC unroll 16
    for (int i = 0; i < 2 * run; ++i) v[i] = sort_bitonic(v[i]);
  }
  template <int distance>
  static TESSERA_INLINE void across(V* v, int count) {
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) {
      if ((i & distance) == 0) order(v[i], v[i + distance]);
    }
  }
  template <int run>
  static TESSERA_INLINE void merges(V* v) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; i += 2 * run) merge<run>(v + i);
  }

  /// kFew numbers.
  static TESSERA_INLINE void sort(T* numbers) {
    V v[kCount];
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = Simd::load(numbers + i * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; i += kLanes) {
      sort_columns(v + i);
      Simd::transpose(v + i);
    }
    merges<1>(v);
    merges<2>(v);
    merges<4>(v);
    if constexpr (kCount > 8) merges<8>(v);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) Simd::store(numbers + i * kLanes, v[i]);
  }
};

/// For each set of lanes, the order of parts of 4 bytes that has these lanes in front.
template <int lanes>
constexpr auto front_orders() {
  std::array<std::uint64_t, std::size_t(1) << lanes> out{};
  constexpr int kParts = 8 / lanes;
  for (std::size_t set = 0; set < out.size(); ++set) {
    int at = 0;
    for (const bool front : {true, false}) {
      for (int lane = 0; lane < lanes; ++lane) {
        if (((set >> lane & 1) != 0) != front) continue;
        for (int part = 0; part < kParts; ++part) {
          out[set] |= std::uint64_t(lane * kParts + part) << (8 * at++);
        }
      }
    }
  }
  return out;
}

/// Puts those above the pivot behind the others; returns how many the others are.
template <class T>
TESSERA_FOR_SORTS std::size_t partition(T* numbers, std::size_t n, T pivot, T* scratch) {
  constexpr int kLanes = kBytes / int(sizeof(T));
  static constexpr auto kOrders = front_orders<kLanes>();
  T* end = scratch + n + kLanes;
  std::size_t left = 0, i = 0;
  const __m256i by = sizeof(T) == 4 ? _mm256_set1_epi32(int(pivot)) : _mm256_set1_epi64x(pivot);
  for (; i + kLanes <= n; i += kLanes) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + i));
    unsigned above;
    if constexpr (sizeof(T) == 4) {
      above = unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v, by))));
    } else {
      above = unsigned(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(v, by))));
    }
    const unsigned below = above ^ ((1u << kLanes) - 1);
    const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(std::int64_t(kOrders[below])));
    const __m256i parted = _mm256_permutevar8x32_epi32(v, order);
    const auto count = std::size_t(_mm_popcnt_u32(below));
    // Both whole: what is too much is written over by what comes next.
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + left), parted);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(end - kLanes), parted);
    left += count;
    end -= kLanes - std::ptrdiff_t(count);
  }
  for (; i < n; ++i) {
    const T x = numbers[i];
    if (x > pivot) {
      *--end = x;
    } else {
      numbers[left++] = x;
    }
  }
  std::memcpy(numbers + left, end, (n - left) * sizeof(T));
  return left;
}

template <class T>
T middle_of(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
/// Next to the median: of nine numbers, or of three of a few.
template <class T>
T pivot_of(const T* x, std::size_t n) {
  const auto at = [&](std::size_t eighth) { return x[(n - 1) * eighth / 8]; };
  if (n < 512) return middle_of(at(1), at(4), at(7));
  return middle_of(middle_of(at(0), at(1), at(2)), middle_of(at(3), at(4), at(5)),
                   middle_of(at(6), at(7), at(8)));
}

template <class T>
TESSERA_FOR_SORTS void sort_few(T* numbers, std::size_t n) {
  if (n == kFew) return Network<T>::sort(numbers);
  alignas(kBytes) T block[kFew];
  std::fill(std::copy_n(numbers, n, block), block + kFew, std::numeric_limits<T>::max());
  Network<T>::sort(block);
  std::copy_n(block, n, numbers);
}

/// `depth`: of partitions, more of which go wrong.
template <class T>
TESSERA_FOR_SORTS void quicksort(T* numbers, std::size_t n, SortedPart part, T* scratch,
                                 int depth) {
  while (n > kFew && part.size() > 0) {
    if (depth-- == 0) return std::sort(numbers, numbers + n);
    const T pivot = pivot_of(numbers, n);
    std::size_t left = partition(numbers, n, pivot, scratch);
    if (left == n) {
      // The pivot is the largest: all that equal it belong at the end.
      if (pivot == std::numeric_limits<T>::min()) return;
      n = partition(numbers, n, T(pivot - 1), scratch);
    } else {
      quicksort(numbers + left, n - left,
                {std::max(part.begin, left) - left, std::max(part.end, left) - left}, scratch,
                depth);
      n = left;
    }
    part = part.within(n);
  }
  if (n > 1 && part.size() > 0) sort_few(numbers, n);
}

}  // namespace
#endif

template <class T>
void vector_sort(T* numbers, std::size_t n, SortedPart part, T* scratch) {
#if defined(__x86_64__)
  if (instruction_set() != InstructionSet::baseline) {
    return quicksort(numbers, n, part, scratch, 2 * int(std::bit_width(n)));
  }
#endif
  std::sort(numbers, numbers + n);
}

template void vector_sort(std::int32_t*, std::size_t, SortedPart, std::int32_t*);
template void vector_sort(std::int64_t*, std::size_t, SortedPart, std::int64_t*);

}  // namespace tessera::codegen
