// SPDX-License-Identifier: Apache-2.0
// A plan, and what its making tells of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::codegen {

struct BuiltPlan {
  runtime::Plan plan;
  /// The kernels of its steps before they were tiled, by number, and how often each is run.
  std::map<std::int32_t, int> kernels;
  /// "sort sort.3 (model.cc:12)": ops that run on the evaluator.
  std::vector<std::string> evaluator_ops;
  /// A chain materialises rows for later steps that could rematerialise them instead.
  bool could_rematerialize_rows = false;
};

}  // namespace tessera::codegen
