// SPDX-License-Identifier: Apache-2.0
// The ops of loops, on vectors.
#pragma once

#include <optional>
#include <vector>

#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/llvm/vector_builder.h"

namespace tessera::codegen {

/// What block_function(op) computes. Empty if there is no code for it.
std::optional<Lanes> emit_operation(const VectorBuilder& v, const BlockOp& op,
                                    const std::vector<Lanes>& operands);

/// The greater (or smaller) of two: a NaN wins, and of two zeros the positive (negative) one.
llvm::Value* emit_extremum(const VectorBuilder& v, bool greatest, llvm::Value* x, llvm::Value* y);

}  // namespace tessera::codegen
