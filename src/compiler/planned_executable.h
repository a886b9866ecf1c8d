// SPDX-License-Identifier: Apache-2.0
// What executables keep of a compilation, and those that run a plan in this process.
#pragma once

#include <memory>

#include "src/codegen/plan/plan_builder.h"
#include "src/compiler/compile.h"

namespace tessera::compiler {

struct Compilation;

/// Takes from the stages what is known of the program.
std::shared_ptr<const CompiledProgram> record_of(Compilation* c);
/// NotImplementedError for one that another engine has loaded, or that doesn't run.
void check_planned(const Executable& executable);
/// Of one that check_planned accepts.
const runtime::Plan& plan_of(const Executable& executable);
std::shared_ptr<const Executable> planned_executable(Compilation c, codegen::BuiltPlan built);

}  // namespace tessera::compiler
