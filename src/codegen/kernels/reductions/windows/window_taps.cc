// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/reductions/windows/window_taps.h"

#include <algorithm>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/reductions/windows/window_vectors.h"

namespace tessera::codegen {
namespace {

using window_vectors::Extremum;
using window_vectors::Sum;

template <class Op, int bytes>
struct Combined {
  using H = typename Op::template Held<bytes>;
  using T = typename H::T;
  using V = typename H::V;

  template <int vectors, int advance>
  static TESSERA_INLINE void block(const WindowTaps& w, V init, std::int64_t first) {
    V held[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) held[v] = init;
    for (std::int64_t t = 0; t < w.count; ++t) {
      const T* const from = reinterpret_cast<const T*>(w.taps[t]) + first * advance;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        held[v] = Op::combine(held[v], H::template load<advance>(from + v * H::kLanes * advance));
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
        const T* const from = reinterpret_cast<const T*>(w.taps[t]) + i * w.advance;
        held = Op::combine(held, One::load(from));
      }
      One::store(reinterpret_cast<T*>(w.out) + i, held);
    }
  }

  template <int advance>
  static TESSERA_INLINE void run(const WindowTaps& w) {
    if constexpr (H::kLanes > 2) {
      if (w.n < H::kLanes) return Combined<Op, bytes / 2>::template run<advance>(w);
    }
    T first[H::kLanes];
    std::fill_n(first, H::kLanes, *reinterpret_cast<const T*>(w.init));
    const V init = H::load(first);
    std::int64_t i = 0;
    for (; i + 4 * H::kLanes <= w.n; i += 4 * H::kLanes) block<4, advance>(w, init, i);
    for (; i + H::kLanes <= w.n; i += H::kLanes) block<1, advance>(w, init, i);
    // Some for a second time: nothing that is read is written.
    if (i < w.n) block<1, advance>(w, init, w.n - H::kLanes);
  }

  static TESSERA_INLINE void run_any(const WindowTaps& w) {
    constexpr std::int64_t kFew = 2;  // as at the ends of rows
    if (w.n <= kFew) return each(w, *reinterpret_cast<const T*>(w.init));
    switch (w.advance) {
      case 1:
        return run<1>(w);
      case 2:
        return run<2>(w);
      case 3:
        return run<3>(w);
      default:
        return run<kMaxTapAdvance>(w);
    }
  }
};

template <class Op, int bytes>
TESSERA_INLINE void combine_taps(const WindowTaps& w) {
  Combined<Op, bytes>::run_any(w);
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
