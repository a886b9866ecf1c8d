// SPDX-License-Identifier: Apache-2.0
// Large matrix products: both operands are packed for a tile of the result that stays in registers,
// by the blocking of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008).
#pragma once

#include <cstdint>

#include "src/codegen/kernels/products/matrix_product.h"

namespace tessera::codegen {

/// Whether it is the fastest way: measured on Sapphire Rapids against OpenBLAS and batch_gemm, than
/// which it is faster by 5 to 25 % where this holds, and on Zen 3 with AVX2, where it is as fast as
/// OpenBLAS or up to 30 % faster. Few rows or columns don't pay for packing. On Zen 4 with AVX-512,
/// 49 rows take 10 to 30 % less time by batch_gemm, whose tiles are as high as they divide evenly.
bool packed_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k);

/// Computes it, for f32 and f64, with the machine's vectors. k is not 0; rows of c are contiguous.
/// An element's sum is formed in an order that depends on k alone, not on where the element is or
/// on m and n.
template <class T>
void packed_gemm(const MatrixProduct<T>& job);

}  // namespace tessera::codegen
