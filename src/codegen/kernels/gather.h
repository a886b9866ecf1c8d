// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/codegen/kernel_spec.h"
#include "src/codegen/loop_program.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Inputs: array, indices. Units are the index vectors.
KernelSpec gather_kernel(const ir::Instruction& gather);
/// The same as a source of elements, if each index vector gives one run of the array and of the
/// result; else null.
std::shared_ptr<const ElementSource> gathered_rows(const ir::Instruction& gather);
/// Inputs: array (its bytes are in the output already), indices, updates. Empty for several arrays
/// or a combiner without block functions.
KernelSpec scatter_kernel(const ir::Instruction& scatter);

}  // namespace tessera::codegen
