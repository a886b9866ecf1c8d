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

/// A plan without kernels: what it holds and how long it takes can be measured. `kernels` makes
/// them.
struct PlannedProgram {
  BuiltPlan built;
  KernelTable kernels;
};
PlannedProgram plan_program(const ir::Module& module);

/// The plan owns what its kernels read: the module may go, or be changed.
BuiltPlan build_plan(const ir::Module& module);
/// The first device's view of it, to be measured and not to be run: it has no kernels, and nothing
/// in it grows with the devices.
BuiltPlan build_plan_of_one_device(const ir::Module& module);

}  // namespace tessera::codegen
