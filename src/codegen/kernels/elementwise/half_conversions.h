// SPDX-License-Identifier: Apache-2.0
// Rows of 16-bit floats to f32 and back, around products in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

namespace tessera::codegen {

/// Whether this takes little next to products.
bool lifts_halves_fast();
/// `half`: f16 or bf16.
void lift_halves(DType half, const std::byte* from, std::int64_t count, float* to);
/// To the nearest, ties to even. NaN stays NaN.
void round_to_halves(DType half, const float* from, std::int64_t count, std::byte* to);

}  // namespace tessera::codegen
