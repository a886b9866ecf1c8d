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

/// The pairs of Batcher's merge-exchange network of n wires (Knuth, The Art of Computer
/// Programming, volume 3, section 5.2.2, algorithm M).
template <int n>
struct Exchanges {
  static_assert(n <= 16);
  int pairs[63][2] = {};
  int count = 0;

  constexpr Exchanges() {
    for (int p = 1; p < n; p *= 2) {
      for (int k = p; k >= 1; k /= 2) {
        for (int i = k % p; i + k < n; i += 2 * k) {
          for (int j = i; j < i + k && j + k < n; ++j) {
            if (j / (2 * p) != (j + k) / (2 * p)) continue;
            pairs[count][0] = j;
            pairs[count++][1] = j + k;
          }
        }
      }
    }
  }
};

/// Networks on so many vectors of so many bytes: of columns, then merges of sorted runs.
template <class T, int bytes, int vectors>
struct Network {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static constexpr std::size_t kNumbers = std::size_t(vectors) * std::size_t(kLanes);
  static_assert(vectors % kLanes == 0 && vectors <= 16);
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
    constexpr Exchanges<kLanes> kExchanges;
#pragma GCC unroll 64
    for (int i = 0; i < kExchanges.count; ++i) {
      order(v[kExchanges.pairs[i][0]], v[kExchanges.pairs[i][1]]);
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
    if constexpr (kLanes > 8) v = step<8>(v, Lanes());
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
    for (int i = 0; i < vectors; i += 2 * run) merge<run>(v + i);
  }

  /// kNumbers of them.
  static TESSERA_INLINE void sort(T* numbers) {
    V v[vectors];
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) v[i] = Simd::load(numbers + i * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i += kLanes) {
      sort_columns(v + i);
      Simd::transpose(v + i);
    }
    merges<1>(v);
    merges<2>(v);
    merges<4>(v);
    if constexpr (vectors > 8) merges<8>(v);
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) Simd::store(numbers + i * kLanes, v[i]);
  }

  /// At most kNumbers.
  static TESSERA_INLINE void sort(T* numbers, std::size_t n) {
    alignas(bytes) T block[kNumbers];
    std::fill(std::copy_n(numbers, n, block), block + kNumbers, std::numeric_limits<T>::max());
    sort(block);
    std::copy_n(block, n, numbers);
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

/// Vectors that are fetched ahead: hardware stops doing so at each page.
constexpr std::ptrdiff_t kPrefetched = 32;

/// What differs by instruction set. `part` takes so many vectors, the next one `step` numbers from
/// the last one. It writes the numbers up to the pivot from `low` on, the others in front of
/// `high`, and what it likes between them, a vector from either; it returns how many are below.
/// `sort_few` sorts at most kFew numbers.
#define TESSERA_FOR_SORTS __attribute__((target("avx2,popcnt")))
struct SortsByAvx2 {
  static constexpr std::size_t kBytes = 32;
  template <class T>
  static constexpr std::size_t kFew = 64;

  template <class T>
  TESSERA_FOR_SORTS static std::size_t part(const T* from, std::ptrdiff_t step, std::size_t vectors,
                                            T pivot, T* low, T* high) {
    constexpr int kLanes = 32 / int(sizeof(T));
    static constexpr auto kOrders = front_orders<kLanes>();
    const T* const first = low;
    const __m256i by = sizeof(T) == 4 ? _mm256_set1_epi32(int(pivot)) : _mm256_set1_epi64x(pivot);
    for (; vectors > 0; --vectors, from += step) {
      __builtin_prefetch(from + kPrefetched * step);
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      unsigned above;
      if constexpr (sizeof(T) == 4) {
        above = unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v, by))));
      } else {
        above = unsigned(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(v, by))));
      }
      const unsigned below = above ^ ((1u << kLanes) - 1);
      const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(std::int64_t(kOrders[below])));
      const __m256i parted = _mm256_permutevar8x32_epi32(v, order);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(low), parted);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(high - kLanes), parted);
      low += _mm_popcnt_u32(below);
      high -= _mm_popcnt_u32(above);
    }
    return std::size_t(low - first);
  }

  template <class T>
  TESSERA_FOR_SORTS static void sort_few(T* numbers, std::size_t n) {
    if (n <= 32) return Network<T, 4 * int(sizeof(T)), 8>::sort(numbers, n);
    Network<T, 32, 2 * int(sizeof(T))>::sort(numbers, n);
  }
};
#undef TESSERA_FOR_SORTS

#define TESSERA_FOR_SORTS __attribute__((target("avx2,popcnt,avx512f,avx512vl,avx512dq,avx512bw")))
struct SortsByAvx512 {
  static constexpr std::size_t kBytes = 64;
  template <class T>
  static constexpr std::size_t kFew = 1024 / sizeof(T);

  template <class T>
  TESSERA_FOR_SORTS static std::size_t part(const T* from, std::ptrdiff_t step, std::size_t vectors,
                                            T pivot, T* low, T* high) {
    const T* const first = low;
    const __m512i by = sizeof(T) == 4 ? _mm512_set1_epi32(int(pivot)) : _mm512_set1_epi64(pivot);
    for (; vectors > 0; --vectors, from += step) {
      __builtin_prefetch(from + kPrefetched * step);
      const __m512i v = _mm512_loadu_si512(from);
      if constexpr (sizeof(T) == 4) {
        const __mmask16 above = _mm512_cmpgt_epi32_mask(v, by);
        const auto count = _mm_popcnt_u32(above);
        high -= count;
        _mm512_storeu_si512(low, _mm512_maskz_compress_epi32(__mmask16(~above), v));
        _mm512_mask_storeu_epi32(high, __mmask16((1u << count) - 1),
                                 _mm512_maskz_compress_epi32(above, v));
        low += 16 - count;
      } else {
        const __mmask8 above = _mm512_cmpgt_epi64_mask(v, by);
        const auto count = _mm_popcnt_u32(above);
        high -= count;
        _mm512_storeu_si512(low, _mm512_maskz_compress_epi64(__mmask8(~above), v));
        _mm512_mask_storeu_epi64(high, __mmask8((1u << count) - 1),
                                 _mm512_maskz_compress_epi64(above, v));
        low += 8 - count;
      }
    }
    return std::size_t(low - first);
  }

  template <class T>
  TESSERA_FOR_SORTS static void sort_few(T* numbers, std::size_t n) {
    if (n <= kFew<T> / 4) return Network<T, 32, 8>::sort(numbers, n);
    if (n <= kFew<T> / 2) return Network<T, int(256 / sizeof(T)), 16>::sort(numbers, n);
    Network<T, 64, 16>::sort(numbers, n);
  }
};
#undef TESSERA_FOR_SORTS

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

/// By one version.
template <class Version, class T>
class Quicksort {
 public:
  /// `depth`: of partitions, more of which go wrong.
  void sort(T* numbers, std::size_t n, SortedPart part, int depth) {
    while (n > Version::template kFew<T> && part.size() > 0) {
      if (depth-- == 0) return std::sort(numbers, numbers + n);
      const T pivot = pivot_of(numbers, n);
      const std::size_t left = partition(numbers, n, pivot);
      if (left == n) {
        // The pivot is the largest: all that equal it belong at the end.
        if (pivot == std::numeric_limits<T>::min()) return;
        n = partition(numbers, n, T(pivot - 1));
      } else {
        sort(numbers + left, n - left,
             {std::max(part.begin, left) - left, std::max(part.end, left) - left}, depth);
        n = left;
      }
      part = part.within(n);
    }
    if (n > 1 && part.size() > 0) Version::sort_few(numbers, n);
  }

 private:
  static constexpr std::size_t kLanes = Version::kBytes / sizeof(T), kVectors = 8;
  static constexpr std::size_t kBlock = kVectors * kLanes;
  static constexpr auto kStep = std::ptrdiff_t(kLanes);

  /// Puts those above the pivot behind the others; returns how many the others are. Blocks are
  /// taken from the side that has less room for what is parted; a block of each side is held back,
  /// so that there is some.
  std::size_t partition(T* numbers, std::size_t n, T pivot) {
    T *low = numbers, *high = numbers + n, *end = held_;
    if (n <= 3 * kBlock) {
      end = std::copy_n(numbers, n, end);
    } else {
      const T *from = numbers + kBlock, *to = numbers + n - kBlock;
      end = std::copy_n(to, kBlock, std::copy_n(numbers, kBlock, end));
      while (to - from >= std::ptrdiff_t(kBlock)) {
        std::size_t below;
        if (from - low <= high - to) {
          below = Version::part(from, kStep, kVectors, pivot, low, high);
          from += kBlock;
        } else {
          below = Version::part(to - kStep, -kStep, kVectors, pivot, low, high);
          to -= kBlock;
        }
        low += below;
        high -= kBlock - below;
      }
      end = std::copy(from, to, end);
    }
    return std::size_t(part_held(end, pivot, low) - numbers);
  }

  /// Parts what is held back into the place that is left for it; returns where those above begin.
  T* part_held(const T* end, T pivot, T* low) {
    const auto vectors = std::size_t(end - held_) / kLanes;
    T* above = std::end(above_);
    const std::size_t below = Version::part(held_, kStep, vectors, pivot, low, above);
    low += below;
    above -= vectors * kLanes - below;
    for (const T* x = held_ + vectors * kLanes; x != end; ++x) {
      const bool is_above = *x > pivot;
      *low = above[-1] = *x;
      low += is_above ? 0 : 1;
      above -= is_above ? 1 : 0;
    }
    std::copy(above, std::end(above_), low);
    return low;
  }

  T held_[3 * kBlock], above_[3 * kBlock + kLanes];
};

template <class Version, class T>
void sort_by(T* numbers, std::size_t n, SortedPart part) {
  Quicksort<Version, T> sorts;  // its room is left as it is
  sorts.sort(numbers, n, part, 2 * int(std::bit_width(n)));
}

}  // namespace
#endif

template <class T>
void vector_sort(T* numbers, std::size_t n, SortedPart part) {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::baseline:
      break;
    case InstructionSet::avx2:
      return sort_by<SortsByAvx2>(numbers, n, part);
    case InstructionSet::avx512:
      return sort_by<SortsByAvx512>(numbers, n, part);
  }
#endif
  std::sort(numbers, numbers + n);
}

template void vector_sort(std::int32_t*, std::size_t, SortedPart);
template void vector_sort(std::int64_t*, std::size_t, SortedPart);

}  // namespace tessera::codegen
