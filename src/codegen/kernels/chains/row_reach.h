// SPDX-License-Identifier: Apache-2.0
// How far around its own row a row of a loop's result reads its inputs.
// Also called: halo width, access relation.
#pragma once

#include <cstdint>
#include <optional>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// Row r of the result is made of rows r + lo to r + hi of the input, as far as there are such.
struct RowReach {
  std::int64_t lo = 0, hi = 0;
};

/// The rows of a loop over so many elements that reads `input` with rows of `width` elements.
struct LoopRows {
  std::int64_t width = 0;  ///< of a row of the result; 0: the input is not read
  RowReach reach;
};

/// As long as rows of an input can be, by reads that don't say how long they are: of arrays of so
/// many elements, at offsets of whole rows. 0: nothing says it.
std::int64_t longest_row(const LoopExpr& program, std::int64_t elements, int input);

/// None if the input is read otherwise. `own`: elements of a row of the result, where that is
/// known; 0: as the reads have it.
std::optional<LoopRows> rows_of_input(const LoopExpr& program, std::int64_t elements, int input,
                                      std::int64_t width, std::int64_t own);

}  // namespace tessera::codegen
