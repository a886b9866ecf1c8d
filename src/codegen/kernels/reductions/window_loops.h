// SPDX-License-Identifier: Apache-2.0
// Loops over rows of single elements, by which windows combine them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/base/arrays/shape.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Loops of windows over rows of single elements, which are too short for calls of block functions.
/// Elements may be held in a wider type.
struct WindowLoops {
  /// held[i] = from[i]
  void (*load)(const std::byte* from, std::byte* held, std::int64_t n);
  /// held[i] = op(held[i], from[i])
  void (*combine)(const std::byte* from, std::byte* held, std::int64_t n);
  /// held[i step] = op(held[i step], from[i advance]), of which both are held.
  void (*tap)(const std::byte* from, std::int64_t advance, std::byte* held, std::int64_t step,
              std::int64_t n);
  /// held[i] = what changes no element that it is combined with
  void (*clear)(std::byte* held, std::int64_t n);
  /// to[i] = held[i]
  void (*store)(const std::byte* held, std::byte* to, std::int64_t n);
};

namespace window_loops {

struct Sum {
  static constexpr double kNeutral = -0.0;
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {
  static constexpr double kNeutral = -std::numeric_limits<double>::infinity();
  template <class T>
  T operator()(T a, T b) const {
    return a == b ? (std::signbit(a) ? b : a) : (a > b || a != a ? a : b);
  }
};
struct Smallest {
  static constexpr double kNeutral = std::numeric_limits<double>::infinity();
  template <class T>
  T operator()(T a, T b) const {
    return a == b ? (std::signbit(a) ? a : b) : (a < b || a != a ? a : b);
  }
};

template <class T, class Held, class F>
struct Loops {
  static void load(const std::byte* from, std::byte* held, std::int64_t n) {
    const auto* x = reinterpret_cast<const T*>(from);
    auto* h = reinterpret_cast<Held*>(held);
    for (std::int64_t i = 0; i < n; ++i) h[i] = Held(x[i]);
  }
  static void combine(const std::byte* from, std::byte* held, std::int64_t n) {
    const auto* x = reinterpret_cast<const T*>(from);
    auto* h = reinterpret_cast<Held*>(held);
    for (std::int64_t i = 0; i < n; ++i) h[i] = F{}(h[i], Held(x[i]));
  }
  static void tap(const std::byte* from, std::int64_t advance, std::byte* held, std::int64_t step,
                  std::int64_t n) {
    const auto* x = reinterpret_cast<const Held*>(from);
    auto* h = reinterpret_cast<Held*>(held);
    if (step == 1 && advance == 1) {
      for (std::int64_t i = 0; i < n; ++i) h[i] = F{}(h[i], x[i]);
    } else if (step == 1 && advance == 2) {
      for (std::int64_t i = 0; i < n; ++i) h[i] = F{}(h[i], x[2 * i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) h[i * step] = F{}(h[i * step], x[i * advance]);
    }
  }
  static void clear(std::byte* held, std::int64_t n) {
    std::fill_n(reinterpret_cast<Held*>(held), n, Held(F::kNeutral));
  }
  static void store(const std::byte* held, std::byte* to, std::int64_t n) {
    const auto* h = reinterpret_cast<const Held*>(held);
    auto* x = reinterpret_cast<T*>(to);
    for (std::int64_t i = 0; i < n; ++i) x[i] = T(h[i]);
  }
  static constexpr WindowLoops kAll = {load, combine, tap, clear, store};
};

template <class T, class Held>
const WindowLoops* loops_of(ir::Opcode op) {
  switch (op) {
    case ir::Opcode::add:
      return &Loops<T, Held, Sum>::kAll;
    case ir::Opcode::maximum:
      return &Loops<T, Held, Largest>::kAll;
    case ir::Opcode::minimum:
      return &Loops<T, Held, Smallest>::kAll;
    default:
      return nullptr;
  }
}

}  // namespace window_loops

/// Null for types other than f32 and f64, and for other ops than sums and extrema. Gives the same
/// bits as block functions.
inline const WindowLoops* window_loops_of(ir::Opcode op, DType element, DType held) {
  if (element == DType::f64 && held == DType::f64)
    return window_loops::loops_of<double, double>(op);
  if (element != DType::f32) return nullptr;
  return held == DType::f64   ? window_loops::loops_of<float, double>(op)
         : held == DType::f32 ? window_loops::loops_of<float, float>(op)
                              : nullptr;
}

}  // namespace tessera::codegen
