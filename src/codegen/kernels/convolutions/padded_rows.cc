// SPDX-License-Identifier: Apache-2.0
// Copies of rows, with zeros around them.
#include "src/codegen/kernels/convolutions/padded_rows.h"

#include <algorithm>
#include <numeric>

#include "src/codegen/kernels/moves/transpose.h"

namespace tessera::codegen {

PaddedRows padded_rows(const ir::WindowDim& w, std::int64_t out, std::int64_t positions,
                       std::int64_t lanes) {
  PaddedRows rows;
  rows.step = w.lhs_dilation / std::gcd(w.lhs_dilation, w.stride);
  rows.advance = rows.step * w.stride / w.lhs_dilation;
  std::int64_t last = INT64_MIN;
  rows.first = INT64_MAX;
  for (std::int64_t begin = 0; begin < std::min(rows.step, out); ++begin) {
    RowPhase phase{begin, (out - begin + rows.step - 1) / rows.step, endless_taps_of(w, begin)};
    if (phase.taps.count > 0) {
      rows.first = std::min(rows.first, phase.taps.at);
      last = std::max(last, phase.taps.at + (phase.taps.count - 1) * phase.taps.advance);
    }
    rows.phases.push_back(phase);
  }
  if (last == INT64_MIN) rows.first = last = 0;
  // Vectors of the last positions end behind them.
  const std::int64_t most = std::min(positions, rows.phases.front().count);
  const std::int64_t in_vectors = (most + lanes - 1) / lanes * lanes;
  rows.lane = (last - rows.first) / rows.advance + 1 + in_vectors;
  return rows;
}

template <class T>
void copy_padded(const PaddedRows& rows, const RowCopy<T>& c) {
  const std::int64_t first = rows.first + c.shift, a = rows.advance;
  for (std::int64_t r = 0; r < a; ++r) {
    // Element j of the lane is x = first + r + j advance.
    const std::int64_t x0 = first + r;
    const auto lanes_below = [&](std::int64_t x) {
      return std::clamp<std::int64_t>(x <= x0 ? 0 : (x - x0 + a - 1) / a, 0, rows.lane);
    };
    const std::int64_t begin = lanes_below(0), end = std::max(begin, lanes_below(c.in));
    T* const to = c.to + r * rows.lane;
    const T* const from = c.from + (x0 + begin * a) * c.x;
    for (std::int64_t f = 0; f < c.features; ++f) {
      T* const row = to + f * rows.length();
      std::fill_n(row, begin, T(0));
      std::fill_n(row + end, rows.lane - end, T(0));
      if (c.feature == 1 && c.features > 1) continue;
      const T* const source = from + f * c.feature;
      if (c.x * a == 1) {
        std::copy_n(source, end - begin, row + begin);
      } else {
        for (std::int64_t j = begin; j < end; ++j) row[j] = source[(j - begin) * a * c.x];
      }
    }
    if (c.feature == 1 && c.features > 1 && end > begin) {
      constexpr auto kBytes = std::int64_t(sizeof(T));
      transpose({reinterpret_cast<std::byte*>(to + begin), reinterpret_cast<const std::byte*>(from),
                 c.features, end - begin, rows.length() * kBytes, a * c.x * kBytes},
                sizeof(T));
    }
  }
}

template void copy_padded(const PaddedRows&, const RowCopy<float>&);
template void copy_padded(const PaddedRows&, const RowCopy<double>&);

}  // namespace tessera::codegen
