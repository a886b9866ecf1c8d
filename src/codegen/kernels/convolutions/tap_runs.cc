// SPDX-License-Identifier: Apache-2.0
// Taps of windows with strides and dilations.
#include "src/codegen/kernels/convolutions/tap_runs.h"

#include <algorithm>
#include <numeric>

namespace tessera::codegen {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

TapRun endless_taps_of(const ir::WindowDim& w, std::int64_t position) {
  // origin + t rhs_dilation is a multiple of lhs_dilation for every step-th t, if for any.
  const std::int64_t origin = position * w.stride - w.pad_low, l = w.lhs_dilation;
  TapRun run;
  run.step = l / std::gcd(l, w.rhs_dilation);
  run.advance = run.step * w.rhs_dilation / l;
  std::int64_t first = 0;
  const auto divides = [&](std::int64_t t) { return (origin + t * w.rhs_dilation) % l == 0; };
  while (first < run.step && !divides(first)) ++first;
  if (first == run.step || first >= w.size) return run;
  run.begin = first;
  run.at = floor_div(origin + first * w.rhs_dilation, l);
  run.count = (w.size - first + run.step - 1) / run.step;
  return run;
}

TapRun taps_of(const ir::WindowDim& w, std::int64_t in, std::int64_t position) {
  const TapRun all = endless_taps_of(w, position);
  TapRun run;
  run.step = all.step;
  run.advance = all.advance;
  // The steps k for which 0 <= at + k advance < in.
  const std::int64_t low = std::max<std::int64_t>(0, -floor_div(all.at, all.advance));
  const std::int64_t high = std::min(all.count, floor_div(in - 1 - all.at, all.advance) + 1);
  if (in == 0 || low >= high) return run;
  run.begin = all.begin + low * all.step;
  run.at = all.at + low * all.advance;
  run.count = high - low;
  return run;
}

std::vector<TapSegment> segments_of(const ir::WindowDim& w, std::int64_t in, std::int64_t out) {
  const std::int64_t period = w.lhs_dilation / std::gcd(w.lhs_dilation, w.stride);
  std::vector<TapSegment> all;
  for (std::int64_t first = 0; first < std::min(period, out); ++first) {
    for (std::int64_t p = first; p < out; p += period) {
      const TapRun taps = taps_of(w, in, p);
      if (p != first && all.back().taps == taps) {
        ++all.back().count;
      } else {
        all.push_back({p, period, 1, period * w.stride / w.lhs_dilation, taps});
      }
    }
  }
  return all;
}

}  // namespace tessera::codegen
