// SPDX-License-Identifier: Apache-2.0
// Which positions of the input the taps of a convolution's window see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/codegen/kernels/convolutions/convolution_problem.h"
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
/// Of an input without ends: `at` may be negative.
TapRun endless_taps_of(const ir::WindowDim& w, std::int64_t position);
TapRun taps_of(const ir::WindowDim& w, std::int64_t in, std::int64_t position);

/// Positions begin, begin + step, ... of the last dim that see the input through the same taps:
/// each one `advance` elements further on.
struct TapSegment {
  std::int64_t begin = 0, step = 1, count = 0, advance = 0;
  TapRun taps;
};
std::vector<TapSegment> segments_of(const ir::WindowDim& w, std::int64_t in, std::int64_t out);

/// The taps of a position of the first dims, of as many as `taps` has; `next` gives its places, the
/// last dim's first. Returns where that is in the result.
template <class Next>
std::int64_t take_position(const ConvolutionProblem& c, Next&& next, std::vector<TapRun>* taps) {
  std::int64_t out = 0;
  for (std::size_t d = taps->size(); d-- > 0;) {
    const std::int64_t position = next(c.out[d]);
    (*taps)[d] = taps_of(c.window[d], c.in[d], position);
    out += position * c.result.spatial[d];
  }
  return out;
}

/// Calls f(input, filter) for each tap of a window that sees the input, the last dim's fastest:
/// where the element that it sees and its own are, by those strides.
template <class F>
void each_tap(const std::vector<ir::WindowDim>& window, const std::vector<TapRun>& taps,
              const Dims& input_strides, const Dims& filter_strides, F&& f, std::size_t dim = 0,
              std::int64_t input = 0, std::int64_t filter = 0) {
  if (dim == taps.size()) return f(input, filter);
  const TapRun& run = taps[dim];
  for (std::int64_t k = 0; k < run.count; ++k) {
    const std::int64_t tap = run.begin + k * run.step;
    const std::int64_t place = window[dim].reversal ? window[dim].size - 1 - tap : tap;
    each_tap(window, taps, input_strides, filter_strides, f, dim + 1,
             input + (run.at + k * run.advance) * input_strides[dim],
             filter + place * filter_strides[dim]);
  }
}

}  // namespace tessera::codegen
