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
  /// The program with the fusions that were chosen, which the plan's steps compute.
  std::unique_ptr<ir::Module> fused;
  BuiltPlan built;
  KernelTable kernels;
};
PlannedProgram plan_program(const ir::Module& module);
/// The first device's view of it, to be measured and not to be run: nothing in it grows with the
/// devices.
PlannedProgram plan_program_of_one_device(const ir::Module& module);

/// Makes the kernels. The plan owns what they read: the module may go, or be changed.
BuiltPlan materialize(PlannedProgram planned);
BuiltPlan build_plan(const ir::Module& module);

}  // namespace tessera::codegen
