// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/codegen/plan_builder.h"
#include "src/compiler/compile.h"

namespace tessera::compiler {

/// A module on its way through the stages, and what they leave behind.
struct Compilation {
  Options options;
  std::unique_ptr<ir::Module> module;  ///< what the next stage takes
  std::unique_ptr<ir::Module> input, propagated;
  std::vector<TensorSharding> parameter_shardings, result_shardings;
  std::vector<TensorSharding> root_sharding;  ///< as the partitioner left it
  std::vector<Shape> parameter_shapes, result_shapes;
  spmd::PartitionReport report;
  codegen::BuiltPlan built;
};

/// Runs all stages.
void run_pipeline(Compilation* c);
/// One line per stage, for documents and tests.
std::vector<std::string> stage_names();

}  // namespace tessera::compiler
