// SPDX-License-Identifier: Apache-2.0
// One device's program → the plan that all devices run in lockstep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/ir/module.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

struct BuiltPlan {
  runtime::Plan plan;
  /// The kernels of its steps before they were tiled, by number, and how often each is run.
  std::map<std::int32_t, int> kernels;
  /// "sort sort.3 (model.cc:12)": ops that run on the evaluator.
  std::vector<std::string> evaluator_ops;
  /// What a chain of its steps makes by rows is held for others, and could be made again.
  bool holds_rows = false;
};

/// A plan without kernels: what it holds and how long it takes can be measured.
struct PlannedProgram {
  BuiltPlan built;
  KernelTable kernels;
};
/// With the fusions that take the least memory, or nearly so if they are faster. Fusions that the
/// module has are calls.
PlannedProgram plan_program(const ir::Module& module);
/// The program with those fusions as instructions, each of them one loop of the plan. Their plan
/// has the same kernels (InternalError if not). `devices`: of the plan, all of them or one.
/// `remakes`: whether the settled plan makes again what its chains would hold for others.
std::unique_ptr<ir::Module> fuse_program(const ir::Module& module, std::int64_t devices,
                                         bool* remakes = nullptr);
/// Without a choice: each fusion that the module has is one loop, and no other op is in one. The
/// module is one that fuse_program gave, and so is `remakes`.
PlannedProgram plan_fused_program(const ir::Module& fused, bool remakes = false);

/// Makes the kernels. The plan owns what they read: the module may go, or be changed.
BuiltPlan materialize(PlannedProgram planned);
BuiltPlan build_plan(const ir::Module& module);
/// The first device's view of it, to be measured and not to be run: it has no kernels, and nothing
/// in it grows with the devices.
BuiltPlan build_plan_of_one_device(const ir::Module& module);

}  // namespace tessera::codegen
