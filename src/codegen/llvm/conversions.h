// SPDX-License-Identifier: Apache-2.0
// Conversions between element types, on vectors.
#pragma once

#include <optional>

#include "src/codegen/llvm/vector_builder.h"
#include "src/ir/attributes.h"

namespace tessera::codegen {

/// As convert_element does; from types that are held as f32 only emit_lift. Empty if there is no
/// code for it.
std::optional<Lanes> emit_convert(const VectorBuilder& v, DType from, DType to, const Lanes& x);
/// f16, bf16 or a float of a byte as f32; null without code for it.
llvm::Value* emit_lift(const VectorBuilder& v, DType small, const Lanes& x);
llvm::Value* emit_reduce_precision(const VectorBuilder& v, const ir::ReducePrecisionAttrs& to,
                                   llvm::Value* x);

}  // namespace tessera::codegen
