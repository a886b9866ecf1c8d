// SPDX-License-Identifier: Apache-2.0
// One device's program → the plan that all devices run in lockstep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/ir/module.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

struct BuiltPlan {
  runtime::Plan plan;
  /// "sort.3 (model.cc:12)": ops that run on the evaluator.
  std::vector<std::string> evaluator_ops;
};

/// The plan owns what its kernels read: the module may go, or be changed.
BuiltPlan build_plan(const ir::Module& module);
/// The first device's view of it, to be measured and not to be run: nothing in it grows with the
/// devices.
BuiltPlan build_plan_of_one_device(const ir::Module& module);

}  // namespace tessera::codegen
