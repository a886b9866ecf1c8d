// SPDX-License-Identifier: Apache-2.0
// The kernel of fft.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Fourier transforms of f32, f64, c64, c128; units are the batches. Empty for other types.
KernelDescriptor fft_kernel(const ir::Instruction& fft);

}  // namespace tessera::codegen
