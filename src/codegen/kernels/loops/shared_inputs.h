// SPDX-License-Identifier: Apache-2.0
// Which inputs of a loop are read as the loop goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// For each input, of so many bytes, of a loop over so many elements: whether a run of elements
/// reads the share of the input that it is of the loop (Share::own). Such are
/// arrays read element by element, and those that have one element for each row.
std::vector<bool> shared_inputs(const LoopExpr& program, std::int64_t elements,
                                const std::vector<std::int64_t>& bytes);

}  // namespace tessera::codegen
