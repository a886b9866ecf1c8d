// SPDX-License-Identifier: Apache-2.0
// The function of a reduction and of what makes its elements.
#pragma once

#include "src/codegen/llvm/loop_function.h"

namespace tessera::codegen {

/// A LoopFunction of that name over units; false if an op has no code.
bool emit_reduce_function(llvm::Module* module, const Machine& machine, const ReduceSource& source,
                          const char* name);

}  // namespace tessera::codegen
