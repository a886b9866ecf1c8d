// SPDX-License-Identifier: Apache-2.0
// Convolutions whose rows of positions are rows of matrix products: lines of several images at
// once, so that a strip of the filter is read for many rows. Either parts of lines that see the
// same taps have these alone, or there is a copy with zeros around it, so that all see all taps.
#pragma once

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// How much of the machine such products use, at most 1; 0 where there is no kernel.
double padded_convolution_use(const ConvolutionProblem& c, DType type);
/// Whether what a unit copies isn't too much.
bool padded_convolution_fits(const ConvolutionProblem& c, DType type);
/// The kernel for f32 and f64, if that holds and the use isn't 0. Output features must be
/// neighbours in the filter and the result.
KernelDescriptor padded_convolution_kernel(ConvolutionProblem c, DType type);

}  // namespace tessera::codegen
