// SPDX-License-Identifier: Apache-2.0
// Convolutions to a few features of each group, of arrays whose rows of positions lie in one piece:
// filters of signals and images, and depthwise ones with features first.
#pragma once

#include <optional>

#include "src/codegen/kernels/direct_convolution.h"

namespace tessera::codegen {

/// The kernel for f32 and f64, if rows of the input and the result are runs of positions that the
/// same taps see; nothing else for others.
std::optional<KernelDescriptor> row_convolution_kernel(const DirectConvolution& c, DType type);

}  // namespace tessera::codegen
