// SPDX-License-Identifier: Apache-2.0
// OpenBLAS as products need it: one thread, kernels for the vectors of this machine,
// and buffers.
#pragma once

namespace tessera::codegen {

/// BLAS's threads would fight with ours. To be called before the first product.
void keep_blas_to_one_thread();

/// Gives OpenBLAS kernels for the vectors of this machine if it took those for any x86-64, as it
/// does on processors that are newer than itself: it knows them by model. Products are 4 to 6 times
/// as fast then (0.3.21 on Emerald Rapids). Nothing if OPENBLAS_CORETYPE says what to take. It is
/// called when the library is loaded, while no other thread multiplies.
void choose_blas_kernels();

/// Has OpenBLAS take so many of the buffers now into which it packs matrices, one for each product
/// that is computed at a time, which it else does when so many first meet. Nothing where it can't
/// be told.
void reserve_blas_buffers(int count);

}  // namespace tessera::codegen
