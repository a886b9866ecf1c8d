// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products.
#pragma once

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

struct ConvolutionPlan {
  /// Orders of dims that the kernel needs, if it doesn't take them as they stand (empty): [batch,
  /// spatial..., feature] of the input and the result, [spatial..., input feature, output feature]
  /// of the filter.
  Dims input, filter;
  /// The result's dims as the kernel makes them, and the order that makes the op's of them.
  Dims made;
  Dims result;
  KernelDescriptor kernel;
};

/// Both operands and the result must have type `type`, which is f32 for the 16-bit floats.
ConvolutionPlan convolution_kernel(const ir::Instruction& convolution, DType type);

}  // namespace tessera::codegen
