// SPDX-License-Identifier: Apache-2.0
// Convolutions to a few features of each group: vectors are of positions, as there are too few
// features of one.
#pragma once

#include <optional>

#include "src/codegen/kernels/convolutions/direct_convolution.h"

namespace tessera::codegen {

/// The kernel for f32 and f64, of operands in any order, if features are few and rows of positions
/// are not; nothing else for others.
std::optional<KernelDescriptor> few_features_convolution_kernel(DirectConvolution c, DType type);

}  // namespace tessera::codegen
