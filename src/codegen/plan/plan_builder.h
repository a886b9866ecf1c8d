// SPDX-License-Identifier: Apache-2.0
// One device's program → the plan that all devices run in lockstep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "src/codegen/built_plan.h"
#include "src/codegen/kernel_table.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// A plan without kernels: what it holds and how long it takes can be measured.
struct PlannedProgram {
  BuiltPlan built;
  KernelTable kernels;
  /// Makes the program that it is the plan of, with its fusions as instructions, each of them one
  /// loop; from the module that was planned, which must still be there. Null if fusions were given.
  std::function<std::unique_ptr<ir::Module>()> fused;
  bool rematerializes = false;  ///< it makes again what its chains would hold for others
};
/// With the fusions that take the least memory, or nearly so if they are faster. Fusions that the
/// module has are calls.
PlannedProgram plan_program(const ir::Module& module);
/// For so many devices. One: the first device's view of it, in which nothing grows with the
/// devices; it can be measured, not run.
PlannedProgram plan_program(const ir::Module& module, std::int64_t devices);
/// The plan that the others are compared with, by itself: its memory says which of several programs
/// will hold less, in a part of the time.
runtime::Plan first_plan(const ir::Module& module, std::int64_t devices);
/// Without a choice: each fusion that the module has is one loop, and no other op is in one. The
/// module, and `rematerializes`, are a PlannedProgram's, and so are the steps of the plan.
PlannedProgram plan_fused_program(const ir::Module& fused, bool rematerializes = false);

/// Makes the kernels. The plan owns what they read: the module may go, or be changed.
BuiltPlan materialize(PlannedProgram planned);
BuiltPlan build_plan(const ir::Module& module);

}  // namespace tessera::codegen
