// SPDX-License-Identifier: Apache-2.0
// Loops over rows of single elements, by which windows combine them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/base/arrays/shape.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// What a loop of windows reads and writes.
struct WindowRun {
  const std::byte* from;
  std::byte* to;
  std::int64_t n;
  std::int64_t advance = 1, step = 1;
};

/// Loops of windows over rows of single elements, which are too short for calls of block functions.
/// Elements may be held in a wider type.
struct WindowLoops {
  using Loop = void (*)(const WindowRun&);
  /// to[i] = from[i], which is held then.
  Loop load;
  /// to[i] = op(to[i], from[i]), of which `to` is held.
  Loop combine;
  /// to[i step] = op(to[i step], from[i advance]), of which both are held. They don't overlap,
  /// unless all of `from` that is written has been read before.
  Loop tap;
  /// to[i] = what changes no element that it is combined with; held.
  Loop clear;
  /// to[i] = from[i], which was held.
  Loop store;
};

/// None for types other than f32 and f64, and for other ops than sums and extrema. Gives the same
/// bits as block functions.
std::optional<WindowLoops> window_loops_of(ir::Opcode op, DType element, DType held);

}  // namespace tessera::codegen
