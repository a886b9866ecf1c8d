// SPDX-License-Identifier: Apache-2.0
// All families of kernels that are chosen by a table.
#pragma once

#include <vector>

#include "src/codegen/kernels/kernel_choice.h"

namespace tessera::codegen {

/// In the order of docs/internals/kernels.md.
std::vector<KernelFamily> kernel_families();

}  // namespace tessera::codegen
