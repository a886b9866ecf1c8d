// SPDX-License-Identifier: Apache-2.0
// Convolutions to a few features of each group: vectors are of positions, as there are too few
// features of one.
#pragma once

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// Whether features are few and rows of positions are not, in f32 or f64.
bool has_few_features(const ConvolutionProblem& c, DType type);
/// The kernel, if that holds, of operands in any order.
KernelDescriptor few_features_convolution_kernel(ConvolutionProblem c, DType type);

}  // namespace tessera::codegen
