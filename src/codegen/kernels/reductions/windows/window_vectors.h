// SPDX-License-Identifier: Apache-2.0
// Vectors of what windows combine, for kernels that are compiled for several instruction sets.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen::window_vectors {

/// from[0], from[advance], ...: nothing beyond the last of them is read.
template <class T, int bytes, int advance>
struct Apart {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;

  static TESSERA_INLINE V load(const T* from) {
    V v = Simd::load(from);
    if constexpr (kLanes > 1) take<1>(from, &v);
    return v;
  }

 private:
  /// Puts what stands in the n-th vector from `from` on into its lanes.
  template <int n>
  static TESSERA_INLINE void take(const T* from, V* v) {
    if constexpr (n < advance) {
      constexpr int kFirst = first_of(n);
      *v = choose<n>(*v, Simd::load(from + kFirst), typename Simd::Lanes());
      take<n + 1>(from, v);
    }
  }
  /// No vector goes beyond the last lane.
  static constexpr int first_of(int n) {
    constexpr int kLast = (kLanes - 1) * advance - (kLanes - 1);
    return n * kLanes < kLast ? n * kLanes : kLast;
  }
  template <int n>
  static constexpr int lane(int i) {
    const int at = i * advance;
    if (at < n * kLanes) return n == 1 ? at : i;  // the first vector isn't in order yet
    return at < (n + 1) * kLanes ? kLanes + at - first_of(n) : i;
  }
  template <int n, std::size_t... i>
  static TESSERA_INLINE V choose(V before, V next, std::index_sequence<i...>) {
    return __builtin_shufflevector(before, next, lane<n>(int(i))...);
  }
};

/// Elements as they stand, held in as many bytes.
template <class Element, int bytes>
struct Same {
  using T = Element;
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  template <int advance = 1>
  static TESSERA_INLINE V load(const T* from) {
    return Apart<T, bytes, advance>::load(from);
  }
  static TESSERA_INLINE void store(T* to, V v) { Simd::store(to, v); }
};
/// f32 held as f64.
template <int bytes>
struct Wider {
  using T = float;
  using Simd = Vectors<double, bytes>;
  using Narrow = Vectors<float, bytes / 2>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  template <int advance = 1>
  static TESSERA_INLINE V load(const T* from) {
    return __builtin_convertvector((Apart<T, bytes / 2, advance>::load(from)), V);
  }
  static TESSERA_INLINE void store(T* to, V v) {
    Narrow::store(to, __builtin_convertvector(v, typename Narrow::V));
  }
};

template <class Element>
struct Sum {
  static constexpr double kNeutral = -0.0;
  template <int bytes>
  using Held =
      std::conditional_t<std::is_same_v<Element, float>, Wider<bytes>, Same<Element, bytes>>;
  template <class V>
  static TESSERA_INLINE V combine(V a, V b) {
    return a + b;
  }
};
/// What isn't a number stays; of zeros, +0 is the larger one.
template <class Element, bool largest>
struct Extremum {
  static constexpr double kNeutral =
      largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  template <int bytes>
  using Held = Same<Element, bytes>;
  template <class V>
  static TESSERA_INLINE V combine(V a, V b) {
    // One comparison for each choice: masks are no vectors in AVX-512.
    using Bits = decltype(a == b);
    const V either = V(largest ? Bits(a) & Bits(b) : Bits(a) | Bits(b));
    V one = largest ? (a > b ? a : b) : (a < b ? a : b);
    one = a == b ? either : one;
    return a != a ? a : one;
  }
};

}  // namespace tessera::codegen::window_vectors
