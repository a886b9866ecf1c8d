// SPDX-License-Identifier: Apache-2.0
// Choices within windows, for derivatives of maxima and minima over windows.
#pragma once

#include <optional>

#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// The length of n elements with gaps between them.
inline std::int64_t dilated(std::int64_t n, std::int64_t dilation) {
  return n == 0 ? 0 : (n - 1) * dilation + 1;
}

/// (a, b) -> a <direction> b, as select-and-scatter calls it; shared per module.
ir::Computation* comparison(ir::Module* module, ir::Direction direction, DType dtype);
/// The direction of a computation that compares its two parameters: ge, gt, le or lt.
std::optional<ir::Direction> comparison_direction(const ir::Computation& c);

/// Of each window the value at the place whose key is the greatest (ge; smallest: le), the first
/// one of equal keys: a reduce-window of both arrays, linear in the values.
///
///     keys   3 1 | 4 4        values   a b | c d        gives   a | c
ir::Instruction* chosen_in_windows(ir::Builder& b, ir::Instruction* keys, ir::Instruction* values,
                                   const ir::WindowAttrs& windows, ir::Direction direction);
/// The direction, if a reduce-window is what chosen_in_windows emits.
std::optional<ir::Direction> chosen_tangent_direction(const ir::Instruction& reduce_window);

}  // namespace tessera::transforms
