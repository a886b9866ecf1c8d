// SPDX-License-Identifier: Apache-2.0
// Which kernel convolves: the table of convolutions.
#pragma once

#include <cstdint>

#include <tessera/dtype.h>

#include "src/codegen/kernels/convolutions/convolution_problem.h"
#include "src/codegen/kernels/kernel_choice.h"

namespace tessera::codegen {

struct ConvolutionOperation {
  DType type = DType::f32;     ///< of operands and sums
  bool has_elements = true;    ///< the result
  bool one_position = false;   ///< all that a window sees is the position that it makes
  ConvolutionProblem given;    ///< filter and result as they stand
  ConvolutionProblem ordered;  ///< and with output features last, if they aren't
};

enum class ConvolutionKernel : std::uint8_t {
  none,
  nothing,
  product,
  few_features,
  depthwise,
  grouped,
  padded,
  direct,
  patches,
};

const KernelLine<ConvolutionOperation, ConvolutionKernel>& choose_convolution(
    const ConvolutionOperation& convolution);
KernelFamily convolution_family();

}  // namespace tessera::codegen
