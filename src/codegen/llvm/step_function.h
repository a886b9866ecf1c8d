// SPDX-License-Identifier: Apache-2.0
// The function of short steps and the loops that they stand in.
#pragma once

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/llvm/vector_builder.h"

namespace tessera::codegen {

/// A function of that name, as StepSource has it; false if an op has no code.
bool emit_step_function(llvm::Module* module, const Machine& machine, const StepSource& source,
                        const char* name);

}  // namespace tessera::codegen
