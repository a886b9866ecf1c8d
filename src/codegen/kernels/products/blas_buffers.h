// SPDX-License-Identifier: Apache-2.0
// The buffers into which OpenBLAS packs matrices: one for each product that is computed at a time.
#pragma once

namespace tessera::codegen {

/// Has OpenBLAS take so many now, which it else does when so many products first meet. Nothing
/// where it can't be told.
void reserve_blas_buffers(int count);

}  // namespace tessera::codegen
