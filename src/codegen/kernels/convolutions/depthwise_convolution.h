// SPDX-License-Identifier: Apache-2.0
// Convolutions of each feature by itself (as many groups as features, of the batch or of the
// features), and their gradients: features go through them side by side in vectors.
#pragma once

#include <optional>

#include "src/codegen/kernels/convolutions/direct_convolution.h"

namespace tessera::codegen {

/// Whether each feature is by itself, and the features of the input are neighbours.
bool is_depthwise(const DirectConvolution& c);

/// The kernel for f32 and f64, if it is depthwise and output features are neighbours in the filter
/// and the result; nothing else for others.
std::optional<KernelDescriptor> depthwise_convolution_kernel(const DirectConvolution& c,
                                                             DType type);

}  // namespace tessera::codegen
