// SPDX-License-Identifier: Apache-2.0
// Functions of complex numbers, on vectors of their parts.
#pragma once

#include <optional>

#include "src/codegen/llvm/vector_builder.h"
#include "src/ir/opcode.h"

namespace tessera::codegen {

/// A function of complex numbers of type `t`; empty if there is no code for it.
std::optional<Lanes> emit_complex_function(const VectorBuilder& v, ir::Opcode op, DType t,
                                           const Lanes& x);

/// x / y, with the infinities and zeros of the C standard's Annex G.
Lanes emit_complex_quotient(const VectorBuilder& v, DType t, const Lanes& x, const Lanes& y);

/// x to the power y. Of zero: 1 if y is zero, else 0.
std::optional<Lanes> emit_complex_power(const VectorBuilder& v, DType t, const Lanes& x,
                                        const Lanes& y);

}  // namespace tessera::codegen
