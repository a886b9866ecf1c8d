// SPDX-License-Identifier: Apache-2.0
// Vectors of a given number of bytes, for kernels that are compiled for several instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {

/// Operations on vectors of `bytes` bytes of T.
template <class T, int bytes>
struct Vectors {
  static constexpr int kLanes = bytes / int(sizeof(T));
  typedef T V __attribute__((vector_size(bytes)));
  using Lanes = std::make_index_sequence<kLanes>;

  /// From any address.
  static TESSERA_INLINE V load(const T* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static TESSERA_INLINE void store(T* to, V v) { std::memcpy(to, &v, sizeof v); }
  static TESSERA_INLINE V splat(T x) { return V{} + x; }

  /// Of all elements: neighbours, then pairs of those, then by halves.
  static TESSERA_INLINE T sum(V v) {
    v = both<1>(v, v);
    if constexpr (kLanes >= 4) v = both<2>(v, v);
    if constexpr (kLanes > 4) add_halves<kLanes / 2>(&v);
    return v[0];
  }
  /// Of all elements of each of four vectors, in that order.
  static TESSERA_INLINE void sums(const V* v, T* out) {
    if constexpr (kLanes < 4) {
      for (int k = 0; k < 4; ++k) out[k] = sum(v[k]);
    } else {
      V all = both<2>(both<1>(v[0], v[1]), both<1>(v[2], v[3]));
      if constexpr (kLanes > 4) add_halves<kLanes / 2>(&all);
      std::memcpy(out, &all, 4 * sizeof(T));
    }
  }

  /// The elements with even numbers of a and b in a row; those with odd ones.
  static TESSERA_INLINE V even(V a, V b) { return even(a, b, Lanes()); }
  static TESSERA_INLINE V odd(V a, V b) { return odd(a, b, Lanes()); }
  /// a[0], b[0], a[1], b[1], ...: the first half of that, and the second one.
  static TESSERA_INLINE V zip_low(V a, V b) { return zip(a, b, Lanes(), Half<0>()); }
  static TESSERA_INLINE V zip_high(V a, V b) { return zip(a, b, Lanes(), Half<kLanes / 2>()); }
  static TESSERA_INLINE V reversed(V a) { return reversed(a, Lanes()); }

  /// Transposes a square matrix, whose rows are vectors. Swaps blocks of 1, 2, 4, ... off the
  /// diagonal of blocks of twice the size.
  static TESSERA_INLINE void transpose(V* rows) {
    swap_blocks<1>(rows);
    if constexpr (kLanes > 2) swap_blocks<2>(rows);
    if constexpr (kLanes > 4) swap_blocks<4>(rows);
    if constexpr (kLanes > 8) swap_blocks<8>(rows);
    if constexpr (kLanes > 16) swap_blocks<16>(rows);
    if constexpr (kLanes > 32) swap_blocks<32>(rows);
  }

 private:
  /// Down to halves of four.
  template <int n>
  static TESSERA_INLINE void add_halves(V* v) {
    *v += from<n>(*v, Lanes());
    if constexpr (n > 4) add_halves<n / 2>(v);
  }
  /// Sums of elements h apart: of a where the number has no h in it, else of b.
  template <int h>
  static TESSERA_INLINE V both(V a, V b) {
    return upper<h>(a, b, Lanes()) + lower<h>(a, b, Lanes());
  }
  /// From element n on, the first ones last.
  template <int n, std::size_t... i>
  static TESSERA_INLINE V from(V v, std::index_sequence<i...>) {
    return __builtin_shufflevector(v, v, int((i + n) % kLanes)...);
  }

  template <int first>
  using Half = std::integral_constant<int, first>;

  template <std::size_t... i>
  static TESSERA_INLINE V even(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int(2 * i)...);
  }
  template <std::size_t... i>
  static TESSERA_INLINE V odd(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int(2 * i + 1)...);
  }
  template <std::size_t... i, int first>
  static TESSERA_INLINE V zip(V a, V b, std::index_sequence<i...>, Half<first>) {
    return __builtin_shufflevector(a, b, int(first + int(i) / 2 + int(i) % 2 * kLanes)...);
  }
  template <std::size_t... i>
  static TESSERA_INLINE V reversed(V a, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, a, int(kLanes - 1 - int(i))...);
  }
  template <int h, std::size_t... i>
  static TESSERA_INLINE V upper(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int((int(i) & h) == 0 ? int(i) : int(i) - h + kLanes)...);
  }
  template <int h, std::size_t... i>
  static TESSERA_INLINE V lower(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int((int(i) & h) == 0 ? int(i) + h : int(i) + kLanes)...);
  }
  template <int h>
  static TESSERA_INLINE void swap_blocks(V* rows) {
#pragma GCC unroll 64
    for (int i = 0; i < kLanes; ++i) {
      if ((i & h) != 0) continue;
      const V a = rows[i], b = rows[i + h];
      rows[i] = upper<h>(a, b, Lanes());
      rows[i + h] = lower<h>(a, b, Lanes());
    }
  }
};

}  // namespace tessera::codegen
