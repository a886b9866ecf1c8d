// SPDX-License-Identifier: Apache-2.0
// Words of sorts: floats by their bits, which count up with the magnitude.
#include "src/codegen/kernels/sorts/sort_words.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "src/codegen/kernels/type_dispatch.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Words of one width, from bits to words or back.
template <class Word>
struct Words {
  const Word* in;
  Word* out;
  std::size_t n;
  Word flips;  ///< bits to be flipped: the sign's of unsigned numbers, all of a descending order
  bool floats, total_order, canonical, back;
  WordsMade* made;
};

template <class Word, int bytes>
struct WordVectors {
  using Simd = Vectors<Word, bytes>;
  using V = typename Simd::V;
  static constexpr Word kMost = std::numeric_limits<Word>::max();
  /// Infinity: greater magnitudes are NaNs'.
  static constexpr Word kInfinity =
      sizeof(Word) == 4 ? Word(0x7f800000) : Word(std::int64_t(0x7ff) << 52);

  static constexpr Word kNan =
      sizeof(Word) == 4 ? Word(0x7fc00000) : Word(std::int64_t(0x7ff8) << 48);

  /// Negative numbers: the greater the magnitude the less they are.
  static TESSERA_INLINE V order(V bits) {
    return bits ^ ((bits >> (8 * int(sizeof(Word)) - 1)) & kMost);
  }

  /// Of any elements, if not of too many for a vector.
  template <class F>
  static TESSERA_INLINE void each(const Words<Word>& a, const F& f) {
    std::size_t i = 0;
    for (; i + Simd::kLanes <= a.n; i += Simd::kLanes)
      Simd::store(a.out + i, f(Simd::load(a.in + i)));
    if (i == a.n) return;
    Word rest[Simd::kLanes] = {};
    std::copy(a.in + i, a.in + a.n, rest);
    Simd::store(rest, f(Simd::load(rest)));
    std::copy_n(rest, a.n - i, a.out + i);
  }
};

template <class Word, int bytes>
TESSERA_INLINE void convert_words(const Words<Word>& a) {
  using W = WordVectors<Word, bytes>;
  using V = typename W::V;
  const Word flips = a.flips;
  if (!a.floats)
    return W::each(
        a, [=](V v) __attribute__((always_inline)) { return v ^ flips; });
  if (a.back)
    return W::each(
        a, [=](V v) __attribute__((always_inline)) { return W::order(v ^ flips); });
  if (a.total_order && !a.canonical) {
    return W::each(
        a, [=](V v) __attribute__((always_inline)) { return W::order(v) ^ flips; });
  }
  // The largest magnitude tells whether there are NaNs; both zeros are one.
  V largest = {}, changed = {};
  const bool one_nan = a.canonical;
  W::each(
      a, [&](V v) __attribute__((always_inline)) {
        const V magnitude = v & W::kMost;
        largest = magnitude > largest ? magnitude : largest;
        V out = magnitude == 0 ? magnitude : v;
        if (one_nan) out = magnitude > W::kInfinity ? V{} + W::kNan : out;
        changed |= out ^ v;
        return W::order(out) ^ flips;
      });
  for (int lane = 0; lane < W::Simd::kLanes; ++lane) {
    if (largest[lane] > W::kInfinity && !one_nan) a.made->ordered = false;
    if (changed[lane] != 0) a.made->unchanged = false;
  }
}

TESSERA_VERSIONS(convert_words_version, convert_words, Words<T>)

template <class Word>
Words<Word> words_for(const SortKey& key, const Word* in, std::size_t n, Word* out) {
  Words<Word> a{in,    out,    n, 0, is_floating(key.type), key.total_order, key.canonical,
                false, nullptr};
  if (key.type == DType::u32 || key.type == DType::u64) a.flips = std::numeric_limits<Word>::min();
  if (key.descending) a.flips = Word(~a.flips);
  return a;
}

template <class Word>
WordsMade make(const SortKey& key, const std::byte* keys, std::size_t n, Word* words) {
  WordsMade made;
  const auto* in = reinterpret_cast<const Word*>(keys);
  if (byte_size(key.type) < sizeof(Word)) {
    dispatch_dtype(key.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* k = reinterpret_cast<const T*>(keys);
      if constexpr (sizeof(T) >= sizeof(Word)) {
        return;
      } else if constexpr (is_small_float_v<T>) {
        for (std::size_t i = 0; i < n; ++i) words[i] = std::bit_cast<std::int32_t>(float(k[i]));
      } else if constexpr (std::is_same_v<T, Pred>) {
        for (std::size_t i = 0; i < n; ++i) words[i] = k[i].value;
      } else if constexpr (std::is_integral_v<T>) {
        for (std::size_t i = 0; i < n; ++i) words[i] = k[i];
      }
    });
    in = words;
  }
  Words<Word> a = words_for(key, in, n, words);
  a.made = &made;
  convert_words_version<Word>()(a);
  return made;
}

template <class Word>
void unmake(const SortKey& key, std::size_t n, Word* words) {
  Words<Word> a = words_for<Word>(key, words, n, words);
  a.back = true;
  convert_words_version<Word>()(a);
}

}  // namespace

bool has_short_words(DType type) { return byte_size(type) <= 4; }

WordsMade make_words(const SortKey& key, const std::byte* keys, std::size_t n,
                     std::int32_t* words) {
  return make(key, keys, n, words);
}
WordsMade make_words(const SortKey& key, const std::byte* keys, std::size_t n,
                     std::int64_t* words) {
  return make(key, keys, n, words);
}

bool words_are_whole(const SortKey& key) {
  const std::size_t size = byte_size(key.type);
  return (size == 4 || size == 8) && (is_integer(key.type) || key.total_order);
}
void unmake_words(const SortKey& key, std::size_t n, std::int32_t* words) { unmake(key, n, words); }
void unmake_words(const SortKey& key, std::size_t n, std::int64_t* words) { unmake(key, n, words); }

}  // namespace tessera::codegen
