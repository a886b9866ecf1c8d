// SPDX-License-Identifier: Apache-2.0
// The error that programs with full gathers are, where that was wished for.
#pragma once

#include "src/compiler/pipeline.h"

namespace tessera::compiler {

/// TESSERA_FULL_GATHER=error. A CompileError that names all full gathers of the report, each with
/// what would avoid it.
void refuse_full_gathers(const Compilation& c);

}  // namespace tessera::compiler
