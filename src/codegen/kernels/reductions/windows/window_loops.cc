// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
#include "src/codegen/kernels/reductions/windows/window_loops.h"

#include <algorithm>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/reductions/windows/window_vectors.h"

namespace tessera::codegen {
namespace {

using window_vectors::Extremum;
using window_vectors::Same;
using window_vectors::Sum;

template <class Op, int bytes>
struct Rows {
  using H = typename Op::template Held<bytes>;
  using T = typename H::T;
  using V = typename H::V;
  using Held = std::remove_cvref_t<decltype(V{}[0])>;
  using Hold = Same<Held, bytes>;
  static constexpr int kLanes = H::kLanes;
  /// What is left is done by halves of a vector.
  using Rest = Rows<Op, bytes / 2>;

  static TESSERA_INLINE void load(const T* from, Held* to, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) Hold::store(to + i, H::template load<1>(from + i));
    if constexpr (kLanes > 1) {
      if (i < n) Rest::load(from + i, to + i, n - i);
    }
  }
  static TESSERA_INLINE void combine(const T* from, Held* to, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V held = Hold::template load<1>(to + i);
      Hold::store(to + i, Op::combine(held, H::template load<1>(from + i)));
    }
    if constexpr (kLanes > 1) {
      if (i < n) Rest::combine(from + i, to + i, n - i);
    }
  }
  template <int advance>
  static TESSERA_INLINE void tap(const Held* from, Held* to, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V held = Hold::template load<1>(to + i);
      Hold::store(to + i, Op::combine(held, Hold::template load<advance>(from + i * advance)));
    }
    if constexpr (kLanes > 1) {
      if (i < n) Rest::template tap<advance>(from + i * advance, to + i, n - i);
    }
  }
  static TESSERA_INLINE void store(const Held* from, T* to, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) H::store(to + i, Hold::template load<1>(from + i));
    if constexpr (kLanes > 1) {
      if (i < n) Rest::store(from + i, to + i, n - i);
    }
  }
  static TESSERA_INLINE void tap_apart(const Held* from, Held* to, const WindowRun& r) {
    using One = Rows<Op, sizeof(Held)>;
    for (std::int64_t i = 0; i < r.n; ++i) {
      One::template tap<1>(from + i * r.advance, to + i * r.step, 1);
    }
  }
};

template <class Op, int bytes>
using TypeOf = typename Rows<Op, bytes>::T;
template <class Op, int bytes>
using HeldOf = typename Rows<Op, bytes>::Held;

template <class Op, int bytes>
TESSERA_INLINE void load_row(const WindowRun& r) {
  Rows<Op, bytes>::load(reinterpret_cast<const TypeOf<Op, bytes>*>(r.from),
                        reinterpret_cast<HeldOf<Op, bytes>*>(r.to), r.n);
}
template <class Op, int bytes>
TESSERA_INLINE void combine_row(const WindowRun& r) {
  Rows<Op, bytes>::combine(reinterpret_cast<const TypeOf<Op, bytes>*>(r.from),
                           reinterpret_cast<HeldOf<Op, bytes>*>(r.to), r.n);
}
template <class Op, int bytes>
TESSERA_INLINE void tap_row(const WindowRun& r) {
  using All = Rows<Op, bytes>;
  const auto* from = reinterpret_cast<const HeldOf<Op, bytes>*>(r.from);
  auto* to = reinterpret_cast<HeldOf<Op, bytes>*>(r.to);
  if (r.step != 1) return All::tap_apart(from, to, r);
  switch (r.advance) {
    case 1:
      return All::template tap<1>(from, to, r.n);
    case 2:
      return All::template tap<2>(from, to, r.n);
    case 3:
      return All::template tap<3>(from, to, r.n);
    case 4:
      return All::template tap<4>(from, to, r.n);
    default:
      return All::tap_apart(from, to, r);
  }
}
template <class Op, int bytes>
TESSERA_INLINE void clear_row(const WindowRun& r) {
  using Held = HeldOf<Op, bytes>;
  std::fill_n(reinterpret_cast<Held*>(r.to), r.n, Held(Op::kNeutral));
}
template <class Op, int bytes>
TESSERA_INLINE void store_row(const WindowRun& r) {
  Rows<Op, bytes>::store(reinterpret_cast<const HeldOf<Op, bytes>*>(r.from),
                         reinterpret_cast<TypeOf<Op, bytes>*>(r.to), r.n);
}

TESSERA_VERSIONS(load_version, load_row, WindowRun)
TESSERA_VERSIONS(combine_version, combine_row, WindowRun)
TESSERA_VERSIONS(tap_version, tap_row, WindowRun)
TESSERA_VERSIONS(clear_version, clear_row, WindowRun)
TESSERA_VERSIONS(store_version, store_row, WindowRun)

template <class Op>
WindowLoops loops_of() {
  return {load_version<Op>(), combine_version<Op>(), tap_version<Op>(), clear_version<Op>(),
          store_version<Op>()};
}

}  // namespace

std::optional<WindowLoops> window_loops_of(ir::Opcode op, DType element, DType held) {
  const bool is_f32 = element == DType::f32;
  if (!is_f32 && element != DType::f64) return std::nullopt;
  if (held != (op == ir::Opcode::add ? DType::f64 : element)) return std::nullopt;
  switch (op) {
    case ir::Opcode::add:
      return is_f32 ? loops_of<Sum<float>>() : loops_of<Sum<double>>();
    case ir::Opcode::maximum:
      return is_f32 ? loops_of<Extremum<float, true>>() : loops_of<Extremum<double, true>>();
    case ir::Opcode::minimum:
      return is_f32 ? loops_of<Extremum<float, false>>() : loops_of<Extremum<double, false>>();
    default:
      return std::nullopt;
  }
}

}  // namespace tessera::codegen
