// SPDX-License-Identifier: Apache-2.0
// Convolutions of each feature by itself (as many groups as features, of the batch or of the
// features), and their gradients: features go through them side by side in vectors.
#pragma once

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// Whether each feature is by itself, and the features of the input are neighbours.
bool is_depthwise(const ConvolutionProblem& c);

/// The kernel for f32 and f64, if it is depthwise. Output features must be neighbours in the filter
/// and the result.
KernelDescriptor depthwise_convolution_kernel(const ConvolutionProblem& c, DType type);

}  // namespace tessera::codegen
