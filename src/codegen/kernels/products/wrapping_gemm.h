// SPDX-License-Identifier: Apache-2.0
// Matrix products of integers whose sums are of their own type.
#pragma once

#include "src/codegen/kernels/products/matrix_product.h"

namespace tessera::codegen {

/// Modulo two to the type's bits, of which there are 8 to 64; numbers of either sign have the same
/// ones. Rows of c are contiguous.
template <class T>
void wrapping_gemm(const MatrixProduct<T>& job);

}  // namespace tessera::codegen
