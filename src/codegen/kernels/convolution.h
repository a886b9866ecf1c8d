// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products of patches.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

struct ConvolutionPlan {
  /// Orders of dims that the kernel needs: [batch, spatial..., feature] of the input and the
  /// result, [spatial..., input feature, output feature] of the filter. Empty: as it stands.
  Dims input, filter;
  /// The result's dims as the kernel makes them, and the order that makes the op's of them.
  Dims made;
  Dims result;
  KernelDescriptor kernel;  ///< units: positions of the result, batch by batch
};

/// Both operands and the result must have type `type`, which is f32 for the 16-bit floats.
ConvolutionPlan convolution_kernel(const ir::Instruction& convolution, DType type);

}  // namespace tessera::codegen
