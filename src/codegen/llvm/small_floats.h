// SPDX-License-Identifier: Apache-2.0
// Floats of a byte in LLVM IR: their numbers as f32, and f32 rounded to them.
#pragma once

#include "src/codegen/llvm/vector_builder.h"

namespace tessera::codegen {

/// The numbers of codes of such a type, which are integers of 8 bits.
llvm::Value* emit_small_float_numbers(const VectorBuilder& v, DType small, llvm::Value* codes);
/// The codes of f32 numbers, to nearest, ties to even; see base/arrays/small_floats.h.
llvm::Value* emit_small_float_codes(const VectorBuilder& v, DType small, llvm::Value* numbers);

}  // namespace tessera::codegen
