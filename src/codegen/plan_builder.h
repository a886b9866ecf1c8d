// SPDX-License-Identifier: Apache-2.0
// One device's program → the plan that all devices run in lockstep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/ir/module.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

struct BuiltPlan {
  runtime::Plan plan;
  /// "sort.3 (model.cc:12)": ops that run on the evaluator.
  std::vector<std::string> evaluator_ops;
};

/// A plan without kernels: what it holds and how long it takes can be measured.
struct PlannedProgram {
  /// The program whose instructions are the plan's steps: each fusion is one loop.
  std::unique_ptr<ir::Module> fused;
  BuiltPlan built;
  KernelTable kernels;
};
/// With the fusions that take the least memory, or nearly so if they are faster. Fusions that the
/// module has are calls.
PlannedProgram plan_program(const ir::Module& module);
/// The first device's view of it, to be measured and not to be run: nothing in it grows with the
/// devices.
PlannedProgram plan_program_of_one_device(const ir::Module& module);
/// With the fusions that the module has: `fused` of a planned program.
PlannedProgram plan_fused_program(std::unique_ptr<ir::Module> fused);
/// What the plan of the program would hold at most.
std::int64_t planned_peak_bytes(const ir::Module& module);

/// Makes the kernels. The plan owns what they read: the module may go, or be changed.
BuiltPlan materialize(PlannedProgram planned);
BuiltPlan build_plan(const ir::Module& module);

}  // namespace tessera::codegen
