// SPDX-License-Identifier: Apache-2.0
// How a compiled loop walks its elements: over rows, so that what it reads at a stride has an
// address that moves by that stride, or one vector after another.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/loop_expr.h"

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
  bool any_made = false;

  /// Of the innermost dim: elements of a row.
  std::int64_t row() const { return steps.size() > 1 ? steps[steps.size() - 2] : 0; }
};

LoopNest nest_of(const LoopExpr& program);

}  // namespace tessera::codegen
