// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers on machines without instructions for them.
#pragma once

#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::codegen {

/// Products of pairs are summed up by one instruction: 16-bit numbers hold 8-bit ones of either
/// sign, and 32-bit ones two of their products.
void byte_pairs_gemm(const NarrowGemm& job);

}  // namespace tessera::codegen
