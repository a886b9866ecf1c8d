// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits: what a block of a counter is made to by Threefry and Philox.
#pragma once

#include <array>
#include <cstdint>

namespace tessera::evaluator {

using Word = std::uint32_t;

inline Word low(std::uint64_t v) { return Word(v); }
inline Word high(std::uint64_t v) { return Word(v >> 32); }
inline std::uint64_t join_words(Word low_word, Word high_word) {
  return std::uint64_t(low_word) | std::uint64_t(high_word) << 32;
}

/// Threefry-2x32 with 20 rounds.
inline std::array<Word, 2> threefry(std::array<Word, 2> x, std::array<Word, 2> key) {
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::array<Word, 3> ks = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x[0] += ks[0];
  x[1] += ks[1];
  for (int group = 0; group < 5; ++group) {
    for (int r = 0; r < 4; ++r) {
      const int turn = kRotations[(group % 2) * 4 + r];
      x[0] += x[1];
      x[1] = (x[1] << turn) | (x[1] >> (32 - turn));
      x[1] ^= x[0];
    }
    x[0] += ks[std::size_t((group + 1) % 3)];
    x[1] += ks[std::size_t((group + 2) % 3)] + Word(group + 1);
  }
  return x;
}

/// Philox-4x32 with 10 rounds.
inline std::array<Word, 4> philox(std::array<Word, 4> x, std::array<Word, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t(x[0]) * 0xD2511F53u;
    const std::uint64_t p1 = std::uint64_t(x[2]) * 0xCD9E8D57u;
    x = {high(p1) ^ x[1] ^ key[0], low(p1), high(p0) ^ x[3] ^ key[1], low(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

/// 32-bit words of Threefry are pairs of one block along the first even dim, or, if there is none,
/// along the longest, whose last word is then dropped: [outer, n, inner], of ceil(n / 2) blocks.
struct ThreefryOrder {
  std::int64_t outer = 1, n = 1, inner = 1;

  std::int64_t half() const { return (n + 1) / 2; }
  std::int64_t blocks() const { return outer * half() * inner; }

  template <class Dims>
  explicit ThreefryOrder(const Dims& dims) {
    if (dims.empty()) return;
    std::size_t split = dims.size();
    for (std::size_t d = 0; d < dims.size() && split == dims.size(); ++d) {
      if (dims[d] % 2 == 0) split = d;
    }
    if (split == dims.size()) {
      split = 0;
      for (std::size_t d = 1; d < dims.size(); ++d) {
        if (dims[d] > dims[split]) split = d;
      }
    }
    for (std::size_t d = 0; d < split; ++d) outer *= dims[d];
    n = dims[split];
    for (std::size_t d = split + 1; d < dims.size(); ++d) inner *= dims[d];
  }
};

}  // namespace tessera::evaluator
