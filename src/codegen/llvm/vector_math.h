// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of vectors of f32 and f64.
#pragma once

#include <string>

#include "src/codegen/llvm/vector_builder.h"
#include "src/ir/opcode.h"

namespace tessera::codegen {

/// Null if there is no code for the op on this machine. A result depends on its element alone, not
/// on the width.
llvm::Value* emit_math(const VectorBuilder& v, ir::Opcode op, DType t,
                       llvm::ArrayRef<llvm::Value*> operands);
/// sqrt(x^2 + y^2) without overflow.
llvm::Value* emit_hypot(const VectorBuilder& v, DType t, llvm::Value* x, llvm::Value* y);

}  // namespace tessera::codegen
