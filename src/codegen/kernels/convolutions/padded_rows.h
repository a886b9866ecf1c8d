// SPDX-License-Identifier: Apache-2.0
// The part of a convolution's input that a few of its results need, with zeros around it, in rows
// of neighbouring positions.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/convolutions/direct_convolution.h"
#include "src/codegen/kernels/convolutions/tap_runs.h"

namespace tessera::codegen {

/// Positions begin + j step of the last dim see the same taps, as if the input had no ends: tap
/// taps.begin + k taps.step sees at + j advance + k taps.advance. Step and advance are those of all
/// phases.
struct RowPhase {
  std::int64_t begin = 0;
  std::int64_t count = 0;  ///< of positions
  TapRun taps;
};

/// How rows of the last dim are padded: element x of the input is where at(x) says, one after the
/// other for those that are `advance` apart, so that positions of a phase see neighbours.
struct PaddedRows {
  std::vector<RowPhase> phases;
  std::int64_t step = 1, advance = 1;
  std::int64_t first = 0;  ///< x of the first element that the first position sees
  std::int64_t lane = 0;   ///< room for those that are `advance` apart
  std::int64_t length() const { return lane * advance; }
  std::int64_t at(std::int64_t x) const {
    return (x - first) % advance * lane + (x - first) / advance;
  }
};

/// For at most so many positions of each phase at a time, and vectors of so many elements.
PaddedRows padded_rows(const ir::WindowDim& w, std::int64_t out, std::int64_t positions,
                       std::int64_t lanes);

/// Features of a row of the input, as it is and padded: feature f of element x goes to
/// to[f * rows.length() + rows.at(x)].
template <class T>
struct RowCopy {
  const T* from = nullptr;
  std::int64_t in = 0;              ///< elements of the row
  std::int64_t x = 1, feature = 1;  ///< strides
  std::int64_t features = 1;
  std::int64_t shift = 0;  ///< elements of the row by which all positions are moved on
  T* to = nullptr;
};
template <class T>
void copy_padded(const PaddedRows& rows, const RowCopy<T>& copy);

}  // namespace tessera::codegen
