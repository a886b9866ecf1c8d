// SPDX-License-Identifier: Apache-2.0
// The function of a reduction of several arrays by a program.
#pragma once

#include "src/codegen/llvm/loop_function.h"

namespace tessera::codegen {

/// A LoopFunction of that name over units; false if something has no code.
bool emit_program_reduce_function(llvm::Module* module, const Machine& machine,
                                  const ProgramReduceSource& source, const char* name);

}  // namespace tessera::codegen
