// SPDX-License-Identifier: Apache-2.0
// Convolutions as sums of matrix products of operands as they stand, whose rows are the batch: no
// patches are made.
#pragma once

#include <optional>

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// How products with the batch as rows would be formed.
struct BatchProducts {
  /// The batch is columns, and output features rows: with few of those vectors would be mostly
  /// empty.
  bool transposed = false;
  /// How much of the machine they use, at most 1, if features or taps of the last dim are summed.
  double by_features = 0, by_taps = 0;

  double use() const { return by_features < by_taps ? by_taps : by_features; }
};
/// Nothing for types other than f32 and f64, and where most of a vector would be empty.
std::optional<BatchProducts> batch_products(const ConvolutionProblem& c, DType type);
/// The kernel, if there are such products. Output features must be neighbours in the filter and the
/// result.
KernelDescriptor direct_convolution_kernel(ConvolutionProblem c, DType type);

}  // namespace tessera::codegen
