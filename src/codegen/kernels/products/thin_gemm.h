// SPDX-License-Identifier: Apache-2.0
// A few vectors by a matrix whose sums go along its lines, as the weights of linear layers lie: the
// matrix is read once, where it stands.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/products/matrix_product.h"

namespace tessera::codegen {

/// Computes it, for f32 and f64, with the machine's vectors. Columns of b, the lines, are
/// contiguous. Each element's bits depend on its row of a and its line of b alone.
template <class T>
void thin_gemm(const MatrixProduct<T>& job);

}  // namespace tessera::codegen
