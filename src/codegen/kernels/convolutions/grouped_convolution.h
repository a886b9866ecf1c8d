// SPDX-License-Identifier: Apache-2.0
// Convolutions of groups of a few features each, several of which are side by side in a vector, or
// one of which is a vector.
#pragma once

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// Whether whole vectors of output features are groups of f32 or f64, and the features of the input
/// are neighbours.
bool has_groups_in_vectors(const ConvolutionProblem& c, DType type);

/// The kernel, if that holds. Output features must be neighbours in the filter and the result.
KernelDescriptor grouped_convolution_kernel(ConvolutionProblem c, DType type);

}  // namespace tessera::codegen
