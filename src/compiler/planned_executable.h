// SPDX-License-Identifier: Apache-2.0
// Executables that run a plan in this process.
#pragma once

#include <memory>

#include "src/codegen/plan_builder.h"
#include "src/compiler/compile.h"

namespace tessera::compiler {

struct Compilation;

std::shared_ptr<const Executable> planned_executable(Compilation c, codegen::BuiltPlan built);

}  // namespace tessera::compiler
