// SPDX-License-Identifier: Apache-2.0
// Reductions as machine code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/reductions/reduce.h"

namespace tessera::codegen {

/// By one commutative op, on what the sums are held as. `init`: the input that is the initial
/// value. Empty if there is no code for it.
std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, const ReduceUnits& units,
                                               const ReduceOperand& operand, DType dtype,
                                               const BlockOp& combine, int init);

/// By a program, of the sums and the elements. `init`: the first of the initial values.
std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, const ReduceUnits& units,
                                               const std::vector<ReduceOperand>& operands,
                                               const std::vector<DType>& types,
                                               const std::shared_ptr<const LoopExpr>& reducer,
                                               int init);

}  // namespace tessera::codegen
