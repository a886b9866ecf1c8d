// SPDX-License-Identifier: Apache-2.0
// How a compiled loop walks its elements: over rows, so that what it reads at a stride has an
// address that moves by that stride, or one vector after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// The dims that all reads of a loop share. Element n has the coordinate n / steps[d] % extent in
/// dim d, where steps go down to 1 and the extent of the first dim is open.
struct LoopNest {
  std::vector<std::int64_t> steps = {1};
  /// By register: of a read at strides and of an iota, one per dim; else empty.
  std::vector<std::vector<std::int64_t>> strides;
  /// By register: filled before the loop runs, a block at a time, in memory of the thread.
  std::vector<bool> made;
  /// Rows are the innermost dim; otherwise its reads at strides gather by index.
  bool by_rows = false;
  bool periodic = false;  ///< otherwise, and if there is a period for every width
  bool any_made = false;
  std::int64_t whole = 1;  ///< elements that a period has whole, for windows

  /// Of the innermost dim: elements of a row.
  std::int64_t row() const { return steps.size() > 1 ? steps[steps.size() - 2] : 0; }
};

/// Elements that one step along the dim of a read's window takes.
inline std::int64_t window_step(const LoopExpr::Register& r) {
  std::int64_t step = 1;
  for (std::size_t d = std::size_t(r.window.dim) + 1; d < r.dims.size(); ++d) step *= r.dims[d];
  return step;
}

/// Elements after which vectors of a loop over short rows read at the same places again, moved by
/// what dims 0 to `dim` add: where each lane reads is known when the code is made.
struct LoopPeriod {
  std::int64_t elements = 0;  ///< 0: there is none that is short
  std::size_t dim = 0;
  /// Elements after which periods begin anew, and the last one ends early; 0: none does.
  std::int64_t row = 0;
};
inline LoopPeriod period_of(const LoopNest& nest, unsigned width) {
  // A vector's code is made so many times.
  constexpr std::int64_t kMostVectors = 16;
  // Of a row that isn't made of whole periods.
  constexpr std::int64_t kFewestInRow = 2;
  const std::size_t dims = nest.steps.size();
  LoopPeriod in_rows;
  for (std::size_t k = dims == 1 ? 1 : dims - 1; k-- > 0;) {
    const std::int64_t step = nest.steps[k], all = std::lcm(step, std::int64_t(width));
    if (all > kMostVectors * width) break;
    if (step % nest.whole != 0) continue;
    if (k == 0 || (nest.steps[k - 1] / step) % (all / step) == 0) return {all, k, 0};
    const std::int64_t row = nest.steps[k - 1];
    if (in_rows.elements == 0 && row >= kFewestInRow * all) in_rows = {all, k, row};
  }
  return in_rows;
}

/// `periodic`: whether short rows may be walked by periods. `row`: by rows, of so many elements
/// each however few, if the reads have them; 0: as suits the reads.
LoopNest nest_of(const LoopExpr& program, bool periodic = false, std::int64_t row = 0);
/// By rows, if they have so many elements.
LoopNest nest_of_rows(const LoopExpr& program, std::int64_t shortest);

}  // namespace tessera::codegen
