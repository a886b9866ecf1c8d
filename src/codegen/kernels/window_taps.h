// SPDX-License-Identifier: Apache-2.0
// Which positions of the input the taps of a convolution's window see.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/module.h"

namespace tessera::codegen {

/// Taps of a window that see the input from one position of the result, and what they see:
/// begin + k step sees at + k advance.
struct TapRun {
  std::int64_t begin = 0, step = 1, count = 0, at = 0, advance = 0;

  friend bool operator==(const TapRun& a, const TapRun& b) {
    return a.begin == b.begin && a.step == b.step && a.count == b.count;
  }
};
TapRun taps_of(const ir::WindowDim& w, std::int64_t in, std::int64_t position);

/// Positions begin, begin + step, ... of the last dim that see the input through the same taps:
/// each one `advance` elements further on.
struct TapSegment {
  std::int64_t begin = 0, step = 1, count = 0, advance = 0;
  TapRun taps;
};
std::vector<TapSegment> segments_of(const ir::WindowDim& w, std::int64_t in, std::int64_t out);

}  // namespace tessera::codegen
