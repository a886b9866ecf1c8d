// SPDX-License-Identifier: Apache-2.0
// Windows that see few places: these are combined in registers, for many results at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ir/module.h"

namespace tessera::codegen {

/// The most elements from a tap of a result to that of the next one.
constexpr std::int64_t kMaxTapAdvance = 4;

/// out[i] = init combined with taps[0][i advance], taps[1][i advance], ..., for i in [0, n).
struct WindowTaps {
  const std::byte* const* taps;
  std::int64_t count;
  const std::byte* init;
  std::byte* out;
  std::int64_t n;
  std::int64_t advance = 1;  ///< up to kMaxTapAdvance
};
using WindowTapsFunction = void (*)(const WindowTaps&);

/// Null for types other than f32 and f64, and for other ops than sums and extrema. Sums of f32 are
/// held as f64, and rounded at the end.
WindowTapsFunction window_taps_of(ir::Opcode op, DType type);

}  // namespace tessera::codegen
