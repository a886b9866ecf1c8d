// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/reductions/window_taps.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

/// Elements as they stand, held in as many bytes.
template <class Element, int bytes>
struct Same {
  using T = Element;
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;
  static TESSERA_INLINE V load(const T* from) { return Simd::load(from); }
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
  static TESSERA_INLINE V load(const T* from) {
    return __builtin_convertvector(Narrow::load(from), V);
  }
  static TESSERA_INLINE void store(T* to, V v) {
    Narrow::store(to, __builtin_convertvector(v, typename Narrow::V));
  }
};

template <class Element>
struct Sum {
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

template <class Op, int bytes>
struct Combined {
  using H = typename Op::template Held<bytes>;
  using T = typename H::T;
  using V = typename H::V;

  template <int vectors>
  static TESSERA_INLINE void block(const WindowTaps& w, V init, std::int64_t first) {
    V held[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) held[v] = init;
    for (std::int64_t t = 0; t < w.count; ++t) {
      const T* const from = reinterpret_cast<const T*>(w.taps[t]) + first;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        held[v] = Op::combine(held[v], H::load(from + v * H::kLanes));
      }
    }
    T* const to = reinterpret_cast<T*>(w.out) + first;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) H::store(to + v * H::kLanes, held[v]);
  }

  /// One by one.
  static TESSERA_INLINE void each(const WindowTaps& w, T init) {
    using One = typename Op::template Held<sizeof(V) / H::kLanes>;
    for (std::int64_t i = 0; i < w.n; ++i) {
      auto held = One::load(&init);
      for (std::int64_t t = 0; t < w.count; ++t) {
        held = Op::combine(held, One::load(reinterpret_cast<const T*>(w.taps[t]) + i));
      }
      One::store(reinterpret_cast<T*>(w.out) + i, held);
    }
  }

  /// Fewer than a vector has lanes.
  static TESSERA_INLINE void few(const WindowTaps& w, V init) {
    V held = init;
    T part[H::kLanes] = {};
    const auto size = std::size_t(w.n) * sizeof(T);
    for (std::int64_t t = 0; t < w.count; ++t) {
      std::memcpy(part, w.taps[t], size);
      held = Op::combine(held, H::load(part));
    }
    H::store(part, held);
    std::memcpy(w.out, part, size);
  }

  static TESSERA_INLINE void run(const WindowTaps& w) {
    constexpr std::int64_t kFew = 2;  // as at the ends of rows
    if (w.n <= kFew) return each(w, *reinterpret_cast<const T*>(w.init));
    T first[H::kLanes];
    std::fill_n(first, H::kLanes, *reinterpret_cast<const T*>(w.init));
    const V init = H::load(first);
    if (w.n < H::kLanes) return few(w, init);
    std::int64_t i = 0;
    for (; i + 4 * H::kLanes <= w.n; i += 4 * H::kLanes) block<4>(w, init, i);
    for (; i + H::kLanes <= w.n; i += H::kLanes) block<1>(w, init, i);
    // Some for a second time: nothing that is read is written.
    if (i < w.n) block<1>(w, init, w.n - H::kLanes);
  }
};

template <class Op, int bytes>
TESSERA_INLINE void combine_taps(const WindowTaps& w) {
  Combined<Op, bytes>::run(w);
}
TESSERA_VERSIONS(taps_version, combine_taps, WindowTaps)

template <class T>
WindowTapsFunction function_of(ir::Opcode op) {
  switch (op) {
    case ir::Opcode::add:
      return taps_version<Sum<T>>();
    case ir::Opcode::maximum:
      return taps_version<Extremum<T, true>>();
    case ir::Opcode::minimum:
      return taps_version<Extremum<T, false>>();
    default:
      return nullptr;
  }
}

}  // namespace

WindowTapsFunction window_taps_of(ir::Opcode op, DType type) {
  if (type == DType::f32) return function_of<float>(op);
  return type == DType::f64 ? function_of<double>(op) : nullptr;
}

}  // namespace tessera::codegen
