// SPDX-License-Identifier: Apache-2.0
// Stable sorts of words by some of their bits (least significant digit first; Knuth, The Art of
// Computer Programming, volume 3, section 5.2.5).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::codegen {

/// Fewer words than this are sorted by comparison.
inline constexpr std::size_t kFewWords = 256;

/// Sorts by bits [low, high) of `key(word)`, which is a std::uint64_t; words that agree in these
/// stay in their order. `scratch` becomes as large as `words`.
template <class Word, class Key>
void radix_sort(std::vector<Word>* words, std::vector<Word>* scratch, unsigned low, unsigned high,
                const Key& key) {
  constexpr unsigned kDigit = 8;
  using Counts = std::array<std::size_t, std::size_t(1) << kDigit>;
  const std::size_t n = words->size();
  const unsigned digits = (high - low + kDigit - 1) / kDigit;
  const auto digit = [&](const Word& w, unsigned d) {
    const unsigned from = low + d * kDigit, bits = std::min(kDigit, high - from);
    return std::size_t((key(w) >> from) & ((std::uint64_t(1) << bits) - 1));
  };
  if (n < kFewWords) {
    const unsigned bits = high - low;
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << bits) - 1;
    std::stable_sort(words->begin(), words->end(), [&](const Word& a, const Word& b) {
      return ((key(a) >> low) & mask) < ((key(b) >> low) & mask);
    });
    return;
  }
  std::vector<Counts> counts(digits, Counts{});
  for (const Word& w : *words) {
    for (unsigned d = 0; d < digits; ++d) ++counts[d][digit(w, d)];
  }
  scratch->resize(n);
  for (unsigned d = 0; d < digits; ++d) {
    Counts& to = counts[d];
    if (to[digit(words->front(), d)] == n) continue;  // all agree
    std::size_t first = 0;
    for (std::size_t& count : to) {
      const std::size_t here = count;
      count = first;
      first += here;
    }
    Word* out = scratch->data();
    for (const Word& w : *words) out[to[digit(w, d)]++] = w;
    words->swap(*scratch);
  }
}

}  // namespace tessera::codegen
