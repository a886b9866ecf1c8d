// SPDX-License-Identifier: Apache-2.0
// Whether the order matters in which a program combines elements.
#pragma once

#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// True if a reducer (of sums, then elements, of these types) gives equal results in any order, as
/// long as no element is NaN: that of argmax, say, which of equal elements takes the one with the
/// lowest index. (Zeros of either sign are equal.) False if that can't be said: it is found out by
/// cases for programs that only compare and select, on up to two arrays.
bool combines_in_any_order(const LoopExpr& reducer, const std::vector<DType>& types);

}  // namespace tessera::codegen
