// SPDX-License-Identifier: Apache-2.0
// The kernels of fft.
#pragma once

#include <vector>

#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// A transform along one dim.
struct FftStep {
  KernelDescriptor kernel;
  std::int64_t bytes = 0;  ///< of its result
  bool in_place = false;   ///< the result may be written over the operand
};
/// The dims of a Fourier transform of f32, f64, c64 or c128, one after the other: each step takes
/// what the one before made. Empty for other types.
std::vector<FftStep> fft_steps(const ir::Instruction& fft);
KernelFamily fft_family();

}  // namespace tessera::codegen
